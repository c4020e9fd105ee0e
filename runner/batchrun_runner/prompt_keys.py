"""What stands in the key of a prompt, `<digest>-<occurrence>-<sample>` (docs/decisions/0004 and 0013)."""


def occurrence_of(key: str) -> int:
    """Which of several equal rows of its data set a key belongs to, from 0; also 0 for a row without a key."""
    _, _, rest = key.partition("-")
    occurrence = rest.partition("-")[0]
    return int(occurrence) if occurrence.isdecimal() else 0


def sample_of(key: str) -> int:
    """Which sample of its prompt a key belongs to, from 0; also 0 for a row without a key."""
    _, _, rest = key.partition("-")
    sample = rest.partition("-")[2]
    return int(sample) if sample.isdecimal() else 0


def with_sample(key: str, sample: int) -> str:
    """The key of another sample of the same prompt."""
    return f"{key.rpartition('-')[0]}-{sample}"


def without_sample(key: str) -> str:
    """The part of a key that all samples of one row have in common."""
    return key.rpartition("-")[0]
