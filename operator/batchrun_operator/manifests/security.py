"""Security contexts. Runner containers satisfy Pod Security `restricted`, sandboxes what their run says (0018)."""

from batchrun_api.spec.sandbox import PodSecurity
from batchrun_operator.manifests.meta import Manifest

USER_ID = 65532
UserIds = tuple[int | None, int | None]
"""User and group; None: the image's own."""


def pod_security() -> Manifest:
    """For the whole pod. No runAsUser: a sandbox runs as its image says."""
    return {"fsGroup": USER_ID, "seccompProfile": {"type": "RuntimeDefault"}}


def runner_security() -> Manifest:
    """For runner and install containers."""
    return {
        "runAsNonRoot": True,
        "runAsUser": USER_ID,
        "runAsGroup": USER_ID,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def sandbox_security(standard: PodSecurity, user_ids: UserIds = (None, None)) -> Manifest:
    """For sandboxes: whatever user their image or row has, but no way up and no raw sockets; or what `restricted` asks
    for.
    """
    user, group = user_ids
    context: Manifest = ({} if user is None else {"runAsUser": user}) | ({} if group is None else {"runAsGroup": group})
    context |= {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["NET_RAW"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    if standard == "Restricted":
        context |= {"runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}}
    return context
