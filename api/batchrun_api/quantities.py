"""Arithmetic with Kubernetes quantities."""

import math
from decimal import Decimal, InvalidOperation

_FACTORS = {
    "m": Decimal("0.001"),
    "": Decimal(1),
    "k": Decimal(10) ** 3,
    "M": Decimal(10) ** 6,
    "G": Decimal(10) ** 9,
    "T": Decimal(10) ** 12,
    "P": Decimal(10) ** 15,
    "E": Decimal(10) ** 18,
    "Ki": Decimal(2) ** 10,
    "Mi": Decimal(2) ** 20,
    "Gi": Decimal(2) ** 30,
    "Ti": Decimal(2) ** 40,
    "Pi": Decimal(2) ** 50,
    "Ei": Decimal(2) ** 60,
}
_MEBI = 2**20


def parse_quantity(text: str | int) -> Decimal:
    """`250m` → 0.25, `1Gi` → 1073741824. Raises ValueError on anything else."""
    number = str(text).rstrip("EPTGMKkim")
    suffix = str(text)[len(number) :]
    if suffix not in _FACTORS or not number:
        raise ValueError(f"not a quantity: {text!r}")
    try:
        return Decimal(number) * _FACTORS[suffix]
    except InvalidOperation as error:
        raise ValueError(f"not a quantity: {text!r}") from error


def format_cpu(cores: Decimal) -> str:
    """In millicores, rounded up."""
    return f"{math.ceil(cores * 1000)}m"


def format_bytes(amount: Decimal) -> str:
    """In MiB where it is a whole number of them, else in bytes, rounded up."""
    whole = math.ceil(amount)
    return f"{whole // _MEBI}Mi" if whole % _MEBI == 0 else str(whole)
