"""What is said of the model server: that it holds batches up for now, or what must be mended (docs/decisions/0007)."""

from collections.abc import Mapping

from batchrun_api.conditions import ConditionType, Reason
from batchrun_api.spec.run import BatchRunSpec
from batchrun_operator.reconcile import conditions
from batchrun_operator.reconcile.observed import Pod
from batchrun_operator.reconcile.troubles import Trouble
from batchrun_operator.reconcile.worksheet import Worksheet


def look_at_rate_limit(sheet: Worksheet, at_work: Mapping[int, Pod]) -> None:
    """Set the condition RateLimited, or end it. `at_work`: pods by batch."""
    if at_work:
        sheet.look_again(sheet.limits.hints_seconds)
    for batch, pod in at_work.items():
        hint = sheet.observed.model_hints.get(pod.name)
        if hint is not None and hint.reason == Reason.RATE_LIMITED:
            message = (
                f"batch {batch}: the model server limits the rate ({hint.message}). "
                "No prompt fails by it, and it goes on by itself. A lower numWorkers asks less"
            )
            sheet.condition(ConditionType.RATE_LIMITED, True, Reason.RATE_LIMITED, message)
            return
    end_rate_limit(sheet)


def end_rate_limit(sheet: Worksheet) -> None:
    """The condition stays, to say that it was so once."""
    if conditions.holds(sheet.status, ConditionType.RATE_LIMITED):
        message = "the model server does not limit the rate any more"
        sheet.condition(ConditionType.RATE_LIMITED, False, Reason.MODEL_ANSWERS, message)


def model_trouble(sheet: Worksheet, at_work: Mapping[int, Pod]) -> Trouble | None:
    """A model server that is down, as far as the sampled pods say."""
    for batch, pod in at_work.items():
        hint = sheet.observed.model_hints.get(pod.name)
        if hint is not None and hint.reason == Reason.MODEL_UNAVAILABLE:
            model = sheet.spec.model
            message = (
                f"batch {batch}: {model.base_url} is down ({hint.message}). It goes on by itself; prompts that have "
                f"waited for {model.outage_timeout_seconds} s fail, and run again on resume"
            )
            return Trouble(Reason.MODEL_UNAVAILABLE, message)
    return None


def what_to_mend(spec: BatchRunSpec, reason: str, *, of_store: bool) -> str:
    """The fix for a run that its model server refused; empty for any other reason, and for the store's words."""
    if of_store:
        return ""
    model, secret = spec.model, spec.model.api_key_secret_ref
    if reason == Reason.MODEL_NOT_FOUND:
        return f"{model.base_url} does not serve the model {model.name}: correct model.name or model.baseURL."
    if reason != Reason.INVALID_CREDENTIALS:
        return ""
    if secret is None:
        return f"{model.base_url} wants a key: put it into a Secret and name that in model.apiKeySecretRef."
    return (
        f"{model.base_url} does not take the key, or its account has no credit: "
        f"correct the key {secret.key} of the Secret {secret.name} (model.apiKeySecretRef)."
    )
