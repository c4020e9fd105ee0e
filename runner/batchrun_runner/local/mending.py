"""What a user of one machine has to mend before the run can go on: key, model name or address."""

from batchrun_api.outcomes import Reason
from batchrun_runner.model.errors import StopRun
from batchrun_runner.settings import RunSettings, key_variable


def what_to_mend(error: StopRun, settings: RunSettings) -> str:
    """One line: what the server said, and what to do about it."""
    model = settings.spec.model
    variable = key_variable(model.base_url)
    if error.reason is Reason.MODEL_NOT_FOUND:
        fix = f"correct spec.model.name ({model.name}) or spec.model.baseURL ({model.base_url})"
    elif settings.api_key is None:
        fix = f"{model.base_url} wants a key: set {variable}"
    else:
        fix = f"{model.base_url} does not take the key in {variable}, or its account has no credit: mend that"
    return f"{error.reason}: {error.message.rstrip('. ')}; {fix}, and run the same command again"
