"""How the agent works on one prompt."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from batchrun_api.spec.base import ApiModel, ConfigMapKeyRef, LongText, Rule, SecretKeyRef, given

MOST_TURNS = 1000
LONGEST_PROMPT_SECONDS = 604800


class PrefillMessage(ApiModel):
    """One message sent before the prompt on each call (few-shot). Never saved in trajectories."""

    role: Literal["system", "user", "assistant"]
    """Who says it."""
    content: LongText
    """What is said."""


class SecretSource(ApiModel):
    """A text that lies in a Secret."""

    secret_key_ref: SecretKeyRef
    """The Secret's key that holds the text."""


class ConfigMapSource(ApiModel):
    """A text that lies in a ConfigMap."""

    config_map_key_ref: ConfigMapKeyRef
    """The ConfigMap's key that holds the text."""


class Agent(ApiModel):
    """Limits and standing messages of the agent loop."""

    max_turns: Annotated[int, Field(ge=1, le=MOST_TURNS)] = 10
    """At most this many model calls for a prompt, then one closing call without tools. A row may set less."""
    timeout_seconds: Annotated[int, Field(ge=1, le=LONGEST_PROMPT_SECONDS)] | None = None
    """Total time for one prompt in seconds. Left out: no limit. A row may set less."""
    max_total_tokens: Annotated[int, Field(ge=1, le=10**12)] | None = None
    """Total tokens for one prompt, as reported by the server. Left out: no limit."""
    system_prompt: LongText | None = None
    """System prompt; saved as the first turn of each trajectory."""
    ephemeral_system_prompt: LongText | None = None
    """System prompt that is used while running and never saved anywhere but in this object and its pods."""
    ephemeral_system_prompt_from: SecretSource | None = None
    """The ephemeral system prompt from a Secret."""
    prefill_messages: Annotated[list[PrefillMessage], Field(min_length=1, max_length=64)] | None = None
    """Messages sent before the prompt on each call (few-shot); never saved in trajectories."""
    prefill_messages_from: ConfigMapSource | None = None
    """The same as a JSON list in a ConfigMap."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!(has(self.ephemeralSystemPrompt) && has(self.ephemeralSystemPromptFrom))",
            message="give ephemeralSystemPrompt or ephemeralSystemPromptFrom, not both",
            holds=lambda self: given(self.ephemeral_system_prompt, self.ephemeral_system_prompt_from) < 2,
        ),
        Rule(
            cel="!(has(self.prefillMessages) && has(self.prefillMessagesFrom))",
            message="give prefillMessages or prefillMessagesFrom, not both",
            holds=lambda self: given(self.prefill_messages, self.prefill_messages_from) < 2,
        ),
    )
