"""Distributions that lie in ConfigMaps: read for a plan that begins, and kept as that plan has it (ADR 0019)."""

import json
from dataclasses import replace

from batchrun_api.checks import spec_problems
from batchrun_api.conditions import Reason
from batchrun_api.own_distribution import DistributionInvalid, parse_distribution, reference_of, with_probabilities
from batchrun_api.spec.base import ConfigMapKeyRef
from batchrun_api.spec.run import BatchRunSpec
from batchrun_api.toolsets import Distribution
from batchrun_operator.kube import NotFound
from batchrun_operator.manifests.config import CONFIG_KEY, config_name
from batchrun_operator.manifests.meta import is_owned_by
from batchrun_operator.memory import RunMemory
from batchrun_operator.ports import Api
from batchrun_operator.reconcile.observed import NoDistribution, Run

_FIELD = "spec.distribution.configMapKeyRef"
_SHOWN_KEYS = 10


async def with_distribution(api: Api, run: Run, memory: RunMemory) -> tuple[Run, NoDistribution | None]:
    """The run with probabilities in the place of a reference, or why there are none. Raises KubeError."""
    reference = reference_of(run.spec) if run.spec else None
    if run.spec is None or reference is None:
        return run, None
    try:
        spec = with_probabilities(run.spec, await _probabilities(api, run, reference, memory))
    except _Missing as error:
        return run, NoDistribution(Reason.CONTAINER_CONFIG_ERROR, f"{_FIELD}: {error}")
    except DistributionInvalid as error:
        place = f"{_FIELD}: key {reference.key} of ConfigMap {reference.name}"
        return run, NoDistribution(Reason.INVALID_SPEC, f"{place}: {error}")
    found = _problems(spec, reference)
    return (run, found) if found else (replace(run, spec=spec), None)


class _Missing(Exception):
    """The ConfigMap or its key is not there; the message says what to make."""


async def _probabilities(api: Api, run: Run, reference: ConfigMapKeyRef, memory: RunMemory) -> Distribution:
    if memory.distribution is not None and memory.distribution_plan_id == run.plan_id:
        return memory.distribution
    of_plan = await _of_plan(api, run)
    if of_plan is None:
        return await _of_user(api, run, reference)
    memory.distribution, memory.distribution_plan_id = of_plan, run.plan_id
    return of_plan


async def _of_plan(api: Api, run: Run) -> Distribution | None:
    """What the plan was made with; None: it is not begun. A ConfigMap of that name that is not ours says nothing."""
    try:
        found = await api.get("configmaps", run.namespace, config_name(run.name, run.uid, run.plan_id))
    except NotFound:
        return None
    if not is_owned_by(found, run.uid):
        return None
    return parse_distribution(json.dumps(json.loads(found["data"][CONFIG_KEY])["spec"]["distribution"]))


async def _of_user(api: Api, run: Run, reference: ConfigMapKeyRef) -> Distribution:
    by_itself = "the run goes on by itself then"
    try:
        found = await api.get("configmaps", run.namespace, reference.name)
    except NotFound:
        text = f"there is no ConfigMap {reference.name} in namespace {run.namespace}: make it; {by_itself}"
        raise _Missing(text) from None
    data = found.get("data") or {}
    if reference.key not in data:
        keys = ", ".join(sorted(data)[:_SHOWN_KEYS]) or "none"
        raise _Missing(f"ConfigMap {reference.name} has no key {reference.key} (it has {keys}): add it; {by_itself}")
    return parse_distribution(data[reference.key])


def _problems(spec: BatchRunSpec, reference: ConfigMapKeyRef) -> NoDistribution | None:
    found = spec_problems(spec, for_cluster=True)
    if not found:
        return None
    text = "; ".join(problem.message for problem in found)
    return NoDistribution(found[0].reason, f"{_FIELD}: key {reference.key} of ConfigMap {reference.name}: {text}")
