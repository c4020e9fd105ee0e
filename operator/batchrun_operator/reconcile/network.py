"""The run's NetworkPolicy: there before the first batch, as its surroundings are now, gone when nobody wants it."""

from batchrun_api.conditions import Reason
from batchrun_operator.manifests import network_policy
from batchrun_operator.manifests.network_policy import policy_name
from batchrun_operator.reconcile.decision import DeleteNetworkPolicy, EnsureNetworkPolicy
from batchrun_operator.reconcile.observed import Network
from batchrun_operator.reconcile.troubles import Trouble
from batchrun_operator.reconcile.worksheet import Worksheet

HOW_TO_ENFORCE = (
    "Install a policy engine that enforces NetworkPolicy (Calico, Cilium, kube-router or your network's own), "
    "or set sandbox.network.mode to Denied or Open"
)
_RIGHTS = "Grant the operator the rights of the chart's rbac.yaml, or set sandbox.network.mode to Denied or Open"
_AGAIN_SECONDS = 15.0
_SOON_SECONDS = 1.0
"""When the policy is written at last, batches need not wait for the next event."""


def keep_policy(sheet: Worksheet) -> Trouble | None:
    """Ask for the policy where it is missing or not as it must be. Without trouble batches may be started after it."""
    network = sheet.observed.network or Network()
    if not sheet.spec.sandbox.network.is_internet_only:
        if network.policy is not None and network.policy.is_ours:
            name = policy_name(sheet.run.name, sheet.run.uid)
            sheet.actions.append(DeleteNetworkPolicy(name, network.policy.uid))
        return None
    if network.fault or network.around is None:
        sheet.look_again(_AGAIN_SECONDS)
        return _trouble(f"the run's NetworkPolicy cannot be looked at: {network.fault or 'it is not known yet'}")
    manifest = network_policy(sheet.subject, network.around)
    if network.policy is not None and network.policy.is_ours and network.policy.spec == manifest["spec"]:
        return None
    sheet.actions.append(EnsureNetworkPolicy(manifest))
    refusal = sheet.observed.refusals.get(manifest["metadata"]["name"])
    if refusal is None:
        return None
    sheet.look_again(_SOON_SECONDS)
    return _trouble(f"the run's NetworkPolicy was refused: {refusal.message}")


def _trouble(words: str) -> Trouble:
    return Trouble(Reason.NETWORK_NOT_ENFORCED, f"{words.rstrip('. ')}. {_RIGHTS}")
