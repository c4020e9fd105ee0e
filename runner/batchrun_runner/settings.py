"""What one run is told, from a file or a mounted ConfigMap, plus the secrets from the environment."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from pydantic import TypeAdapter, ValidationError

from batchrun_api.names import ENV_API_KEY, ENV_EPHEMERAL_SYSTEM_PROMPT, tool_key_variable
from batchrun_api.spec import BatchRun, BatchRunSpec, PrefillMessage
from batchrun_api.spec.tool_models import ModelRef
from batchrun_api.spec.tools import TOOL_KEY_PURPOSES
from batchrun_api.wording import plain_words

OPENROUTER_KEY = "OPENROUTER_API_KEY"


@dataclass(frozen=True, slots=True)
class Owner:
    """Who owns the output location. On one machine the UID is empty."""

    uid: str = ""
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """A run's configuration as the verbs use it. Secrets never show in its repr."""

    spec: BatchRunSpec
    run_name: str
    owner: Owner = field(default_factory=Owner)
    api_key: str | None = field(default=None, repr=False)
    """None: the server needs no key."""
    tool_keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Keys of the tools' servers, by purpose (`web.search`, `vision`)."""
    ephemeral_system_prompt: str | None = field(default=None, repr=False)
    prefill_messages: tuple[PrefillMessage, ...] = field(default=(), repr=False)

    @property
    def secrets(self) -> list[str | None]:
        """Texts that nothing that is kept or logged may quote."""
        return [
            self.api_key,
            *self.tool_keys.values(),
            self.ephemeral_system_prompt,
            *(message.content for message in self.prefill_messages),
        ]

    def key_for(self, purpose: str, ref: ModelRef | None) -> str | None:
        """The key for a model that a tool asks (None: the run's own model), or None where none is to be sent.

        The run's own key goes to the run's own base URL and to no other.
        """
        if ref is None:
            return self.api_key
        if purpose in self.tool_keys:
            return self.tool_keys[purpose]
        is_own = ref.api_key_secret_ref is None and ref.is_at(self.spec.model.base_url)
        return self.api_key if is_own else None


def key_variable(base_url: str) -> str:
    """The environment variable that holds the key for a base URL. Raises ValueError for what is no URL."""
    host = urlsplit(base_url).hostname or ""
    return OPENROUTER_KEY if host == "openrouter.ai" or host.endswith(".openrouter.ai") else "OPENAI_API_KEY"


def key_fault(key: str) -> str:
    """Why a key cannot travel in an HTTP header; empty: it can."""
    if key != key.strip():
        return "begins or ends with a blank or a line break"
    return "" if key.isascii() and key.isprintable() else "holds characters that no HTTP header takes"


class PrefillInvalid(ValueError):
    """A text is no JSON list of messages; the message says where."""


def prefill_messages(text: str) -> tuple[PrefillMessage, ...]:
    """Messages from their JSON list. Raises PrefillInvalid."""
    try:
        return tuple(TypeAdapter(list[PrefillMessage]).validate_json(text))
    except ValidationError as error:
        detail = error.errors(include_url=False, include_input=False)[0]
        where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in detail["loc"]) or "the text"
        raise PrefillInvalid(f"is no JSON list of messages {{role, content}}: {where} {plain_words(detail)}") from error


def _tool_keys(environ: Mapping[str, str]) -> dict[str, str]:
    keys = {purpose: environ.get(tool_key_variable(purpose), "") for purpose in TOOL_KEY_PURPOSES}
    return {purpose: key for purpose, key in keys.items() if key}


def from_batchrun(
    run: BatchRun,
    *,
    owner: Owner | None = None,
    prefill_messages: tuple[PrefillMessage, ...] = (),
    environ: Mapping[str, str] = os.environ,
) -> RunSettings:
    """Settings of a run; what lies in Secrets on a cluster comes from `environ`."""
    agent = run.spec.agent
    return RunSettings(
        spec=run.spec,
        run_name=run.run_name,
        owner=owner or Owner(),
        api_key=environ.get(ENV_API_KEY) or None,
        tool_keys=_tool_keys(environ),
        ephemeral_system_prompt=agent.ephemeral_system_prompt or environ.get(ENV_EPHEMERAL_SYSTEM_PROMPT) or None,
        prefill_messages=tuple(agent.prefill_messages or ()) or prefill_messages,
    )
