"""What makes a spec unusable although it got past the schema."""

from collections.abc import Iterator

from pydantic import ValidationError

from batchrun_api.spec.run import BatchRunSpec
from batchrun_api.toolsets import DISTRIBUTIONS, TOOLSETS
from batchrun_operator.manifests.quantities import parse_quantity

_SHOWN_PROBLEMS = 5


def problems(spec: BatchRunSpec) -> list[str]:
    """What must be mended, for people; empty: nothing."""
    found = []
    if spec.output is None:
        found.append("output is needed on a cluster: name the bucket in output.s3")
    if spec.dataset.uri is not None and spec.dataset.uri.startswith("file:"):
        found.append("dataset.uri file:// works on one machine only: use s3://, https:// or a ConfigMap")
    if isinstance(spec.distribution, str):
        if spec.distribution not in DISTRIBUTIONS:
            found.append(f"distribution {spec.distribution!r} is not known: {', '.join(DISTRIBUTIONS)}")
    else:
        unknown = sorted(set(spec.distribution) - set(TOOLSETS))
        if unknown:
            found.append(f"distribution names unknown toolsets {', '.join(unknown)}: {', '.join(TOOLSETS)}")
    return [*found, *_unreadable_quantities(spec)]


def _unreadable_quantities(spec: BatchRunSpec) -> Iterator[str]:
    resources = spec.sandbox.resources
    for part, amounts in (("requests", resources.requests), ("limits", resources.limits)):
        for kind, amount in amounts.to_wire().items():
            try:
                parse_quantity(amount)
            except ValueError as error:
                yield f"sandbox.resources.{part}.{kind}: {error}"


def explain(error: ValidationError) -> str:
    """The errors with the paths of their fields, without the values: they may be secret."""
    lines = [
        f"spec.{'.'.join(str(part) for part in item['loc'])}: {item['msg']}".replace("spec.: ", "")
        for item in error.errors(include_url=False, include_input=False, include_context=False)
    ]
    more = len(lines) - _SHOWN_PROBLEMS
    return "; ".join(lines[:_SHOWN_PROBLEMS]) + (f"; and {more} more" if more > 0 else "")
