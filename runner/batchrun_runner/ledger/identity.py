"""What a configuration is: the parts that act on results, each with its digest (docs/decisions/0004)."""

import json
from dataclasses import dataclass
from typing import Any

from batchrun_api.checks import distribution_of
from batchrun_runner.dataset.keys import canonical_json, digest_of
from batchrun_runner.settings import RunSettings


@dataclass(frozen=True, slots=True)
class Configuration:
    """What acts on the results, part by part."""

    parts: dict[str, str]
    """Digest of each part."""
    shown: dict[str, str]
    """The value of those parts that are short and hold no secret, for messages."""

    @property
    def digest(self) -> str:
        """The configuration digest that every row carries."""
        return digest_of(canonical_json(self.parts))

    def encode(self) -> bytes:
        """The content of `configs/<digest>.json`."""
        return canonical_json({"parts": self.parts, "shown": self.shown})

    @classmethod
    def decode(cls, body: bytes) -> "Configuration | None":
        """None where the object is damaged."""
        try:
            document = json.loads(body)
            return cls(dict(document["parts"]), dict(document["shown"]))
        except (ValueError, TypeError, KeyError):
            return None

    def changes_from(self, old: "Configuration | None") -> list[str]:
        """What differs, for people: `model (was gpt-4o, now gpt-5)`. Texts are named and not shown."""
        if old is None:
            return ["a configuration whose record is lost"]
        changed = [name for name in {**old.parts, **self.parts} if old.parts.get(name) != self.parts.get(name)]
        return [self._change(name, old) for name in changed]

    def _change(self, name: str, old: "Configuration") -> str:
        if name in old.shown or name in self.shown:
            return f"{name} (was {old.shown.get(name, 'not set')}, now {self.shown.get(name, 'not set')})"
        return name


_SHOWN = ("model.name", "model.maxTokens", "model.sampling", "model.reasoning", "distribution", "tools")


def configuration(settings: RunSettings) -> Configuration:
    """The configuration of a run. Limits, retries, resources, filters, numWorkers and baseURL are not part of it."""
    spec = settings.spec
    probabilities = distribution_of(spec) or {}
    values: dict[str, Any] = {
        "model.name": spec.model.name,
        "model.maxTokens": spec.model.max_tokens,
        "model.sampling": spec.model.sampling.to_wire(),
        "model.reasoning": spec.model.reasoning.to_wire(),
        "model.extraBody": spec.model.extra_body or {},
        "agent.systemPrompt": spec.agent.system_prompt,
        "agent.ephemeralSystemPrompt": settings.ephemeral_system_prompt,
        "agent.prefillMessages": [message.to_wire() for message in settings.prefill_messages],
        "distribution": {name: value for name, value in probabilities.items() if value},
        "tools": spec.tools.acting(),
    }
    shown = {name: values[name] for name in _SHOWN} | {
        "distribution": spec.distribution if isinstance(spec.distribution, str) else values["distribution"]
    }
    return Configuration(
        parts={name: digest_of(canonical_json(value)) for name, value in values.items()},
        shown={name: _text(value) for name, value in shown.items() if value},
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else canonical_json(value).decode()
