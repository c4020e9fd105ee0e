"""What a model was asked with, as a trajectory keeps it."""

from typing import Any

from batchrun_runner.model.clean import dumps
from batchrun_runner.model.guard import SecretsGuard, names_secret
from batchrun_runner.model.request import fields_of_sample, standing_fields
from batchrun_runner.settings import RunSettings

WITHHELD = "(withheld)"
_TRANSPORT = frozenset({"model", "stream", "stream_options"})
"""Fields of a request that say nothing of how the answer is drawn; the model has a column of its own."""


def sampling_of(settings: RunSettings, sample: int = 0) -> str:
    """A JSON object: the fields of each request of this sample besides model, messages and tools, as they were sent.

    A value of `model.extraBody` whose name says that it is a secret, or that quotes one of the run's secrets, is
    withheld.
    """
    guard = SecretsGuard(settings.secrets)
    fields = fields_of_sample(standing_fields(settings.spec.model), sample)
    fields = {name: value for name, value in fields.items() if name not in _TRANSPORT}
    return dumps(_shown(fields, guard)).decode()


def _shown(value: Any, guard: SecretsGuard) -> Any:
    if isinstance(value, dict):
        return {name: _of_name(name, item, guard) for name, item in value.items()}
    if isinstance(value, list):
        return [_shown(item, guard) for item in value]
    return WITHHELD if isinstance(value, str) and guard.quotes(value) else value


def _of_name(name: str, value: Any, guard: SecretsGuard) -> Any:
    return WITHHELD if names_secret(name) else _shown(value, guard)
