"""From the reference's values to a spec, with a comment wherever the two do not do the same."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic import ValidationError

from batchrun_api.availability import lacks
from batchrun_api.checks import distribution_of, spec_problems
from batchrun_api.spec import BatchRun
from batchrun_api.spec.model import DEFAULT_MODEL, OPENROUTER_URL
from batchrun_runner.settings import PrefillInvalid, key_variable, prefill_messages
from batchrun_runner.translate.words import NotTranslated

FIELDS = {
    "run_name": "runName",
    "dataset_file": "dataset.uri",
    "batch_size": "batchSize",
    "num_workers": "numWorkers",
    "max_samples": "maxSamples",
    "resume": "resumePolicy",
    "distribution": "distribution",
    "model": "model.name",
    "base_url": "model.baseURL",
    "max_tokens": "model.maxTokens",
    "reasoning_effort": "model.reasoning.effort",
    "providers_allowed": "model.openRouter.providers.allowed",
    "providers_ignored": "model.openRouter.providers.ignored",
    "providers_order": "model.openRouter.providers.order",
    "provider_sort": "model.openRouter.providers.sort",
    "max_turns": "agent.maxTurns",
    "ephemeral_system_prompt": "agent.ephemeralSystemPrompt",
    "prefill_messages_file": "agent.prefillMessages",
    "verbose": "logging.level",
    "log_prefix_chars": "logging.prefixChars",
}
"""By parameter, the field below `spec` that it becomes, in the order of the file."""

_NUMBERS = {
    "batch_size": (1, 100, "a batch is one pod"),
    "num_workers": (1, 1000, "more batches at the same time"),
    "max_samples": (1, 10**9, "more prompts"),
    "max_tokens": (1, 10_000_000, "more tokens in a reply"),
    "max_turns": (1, 1000, "more model calls for a prompt"),
    "log_prefix_chars": (0, 10_000, "more characters in a log line"),
}
"""By parameter: least value, our largest one, and what more of it would be."""
_ALL_WHEN_ZERO = ("max_samples", "max_tokens")
_NOT_SET = ""
_LEAST_SECRET_CHARS = 12
"""Shorter keys are words like `none`, for servers that ask for no key."""


class Translation:
    """The document of a BatchRun, and comments by field."""

    def __init__(self) -> None:
        self.spec: dict[str, Any] = {}
        self.name = "run"
        self.comments: dict[str, list[str]] = {}

    def set(self, path: str, value: Any) -> None:
        """Set a field below `spec`."""
        *parents, last = path.split(".")
        place = self.spec
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value

    def say(self, path: str, comment: str) -> None:
        """A comment above a field that is set."""
        self.comments.setdefault(path, []).append(" ".join(comment.split()))

    @property
    def document(self) -> dict[str, Any]:
        """The resource."""
        return {
            "apiVersion": "batchrun.dev/v1alpha1",
            "kind": "BatchRun",
            "metadata": {"name": self.name},
            "spec": self.spec,
        }


def translation(values: Mapping[str, str]) -> Translation:
    """The BatchRun for what was given. Raises NotTranslated, with the flag, for what cannot be run."""
    missing = [f"--{name}" for name in ("dataset_file", "batch_size", "run_name") if not values.get(name)]
    if missing:
        raise NotTranslated(f"the reference needs {', '.join(missing)}")
    made = Translation()
    for name in FIELDS:
        _SETTERS.get(name, _text)(made, name, values.get(name, _NOT_SET))
    if values.get("api_key"):
        _key(made, values)
    if _flag("reasoning_disabled", values.get("reasoning_disabled", _NOT_SET)):
        made.set("model.reasoning.effort", "none")
    if made.spec["model"].get("reasoning", {}).get("effort") == "none":
        made.set("filters.requireReasoning", False)
        made.say(
            "filters", "the reference discards every sample without reasoning, and here there is none; so they are kept"
        )
    _check(made)
    return made


def _text(made: Translation, name: str, value: str) -> None:
    if value:
        made.set(FIELDS[name], value)


def _number(made: Translation, name: str, value: str) -> None:
    least, most, what = _NUMBERS[name]
    if not value or (value == "0" and name in _ALL_WHEN_ZERO):
        return
    if not re.fullmatch(r"[0-9]{1,15}", value.replace("_", "")) or int(value) < least:
        raise NotTranslated(f"--{name}: must be a whole number from {least}")
    made.set(FIELDS[name], min(int(value), most))
    if int(value) > most:
        made.say(FIELDS[name], f"--{name}={int(value)}: {most} is the most here ({what})")


def _names(made: Translation, name: str, value: str) -> None:
    """`a,b`, also in the brackets and quotes of a Python list."""
    if names := [item.strip(" \t'\"[]()") for item in value.split(",") if item.strip(" \t'\"[]()")]:
        made.set(FIELDS[name], names)


def _run_name(made: Translation, name: str, value: str) -> None:
    made.set(FIELDS[name], value)
    made.name = re.sub(r"[^a-z0-9]+", "-", value.lower())[:63].strip("-") or "run"


def _dataset(made: Translation, name: str, value: str) -> None:
    is_address = re.match(r"(s3|https?|file)://", value)
    made.set(FIELDS[name], value if is_address else f"file://{quote(value)}")
    if not is_address:
        made.say("dataset", "file:// counts from the folder of this file; on a cluster use s3:// or https://")


def _model(made: Translation, name: str, value: str) -> None:
    made.set(FIELDS[name], value or DEFAULT_MODEL)


def _resume(made: Translation, name: str, value: str) -> None:
    made.set(FIELDS[name], "Continue")
    if _flag(name, value):
        made.say(FIELDS[name], "goes on from what is stored, by what prompts are and not by their row numbers")
    else:
        made.say(FIELDS[name], "the reference starts over without --resume; here nothing stored is ever overwritten:")
        made.say(FIELDS[name], "Continue goes on from results of this runName, Never refuses where some lie")


def _distribution(made: Translation, name: str, value: str) -> None:
    made.set(FIELDS[name], value or "default")


def _prefill(made: Translation, name: str, value: str) -> None:
    if not value:
        return
    try:
        messages = prefill_messages(Path(value).read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise NotTranslated(f"--{name}: {value} cannot be read: {error}") from error
    except PrefillInvalid as error:
        raise NotTranslated(f"--{name}: {value} {error}") from error
    if messages:
        made.set(FIELDS[name], [message.to_wire() for message in messages])
        made.say(FIELDS[name], f"as they are now in {Path(value).name}")


def _verbose(made: Translation, name: str, value: str) -> None:
    if _flag(name, value):
        made.set(FIELDS[name], "debug")


_SETTERS = {
    **dict.fromkeys(_NUMBERS, _number),
    **dict.fromkeys(("providers_allowed", "providers_ignored", "providers_order"), _names),
    "run_name": _run_name,
    "dataset_file": _dataset,
    "model": _model,
    "resume": _resume,
    "distribution": _distribution,
    "prefill_messages_file": _prefill,
    "verbose": _verbose,
}


def _flag(name: str, value: str) -> bool:
    """Yes or no. Raises NotTranslated for a word that is neither: most likely it belongs somewhere else."""
    if value.lower() in {"true", "1", "yes"}:
        return True
    if value.lower() in {_NOT_SET, "false", "0", "no", "none"}:
        return False
    raise NotTranslated(f"--{name}: is True or False, and the word after it is neither")


def _key(made: Translation, values: Mapping[str, str]) -> None:
    """The key is a secret, and a file is no place for it."""
    try:
        variable = key_variable(made.spec["model"].get("baseURL", OPENROUTER_URL))
    except ValueError as error:
        raise NotTranslated("--base_url: is no web address") from error
    made.say("model", f"--api_key is not written down. On this machine: export {variable}=...")
    made.say("model", "On a cluster: kubectl create secret generic model-api-key --from-literal=api-key=...")
    made.say("model", "and below model: apiKeySecretRef: {name: model-api-key, key: api-key}")
    for text in _texts(made.spec):
        if len(values["api_key"]) >= _LEAST_SECRET_CHARS and values["api_key"] in text:
            raise NotTranslated("--api_key: the key stands in another flag's value, too; leave it out there")


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.values() for text in _texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) else []


def _check(made: Translation) -> None:
    """What `batchrun validate --local` would say, by flag; toolsets that do not work here are dropped."""
    made.set("tools.onUnavailable", "Drop")
    try:
        spec = BatchRun.model_validate(made.document, by_alias=True, by_name=False).spec
    except ValidationError as error:
        detail = error.errors(include_url=False, include_context=False, include_input=False)[0]
        path = ".".join(str(step) for step in detail["loc"][1:])
        raise NotTranslated(f"{_flag_of(path)}: {detail['msg'].removeprefix('Value error, ')}") from error
    for problem in spec_problems(spec, for_cluster=False):
        raise NotTranslated(f"{_flag_of('.'.join(problem.path))}: {problem.message}")
    lacking = lacks(spec)
    dropped = [name for name, percent in (distribution_of(spec) or {}).items() if percent and name in lacking]
    if dropped:
        listed = ", ".join(f"{name} ({lacking[name]})" for name in dropped)
        made.say("tools", f"toolsets whose needs are not met are left out: {listed}")
    else:
        del made.spec["tools"]


def _flag_of(path: str) -> str:
    return next((f"--{name}" for name, field in FIELDS.items() if path and path.startswith(field)), f"spec.{path}")
