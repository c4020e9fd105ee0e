"""The collector of reference cycles, told that a great many objects are about to be made and kept."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_YOUNG_OBJECTS = 100_000
"""So many new objects before cycles are looked for; Python's own 700 walk a growing list hundreds of times."""


@contextmanager
def many_objects() -> Iterator[None]:
    """While a hundred thousand rows are read: a quarter of that time would go into looking for cycles among them."""
    usual = gc.get_threshold()
    gc.set_threshold(max(usual[0], _YOUNG_OBJECTS) if usual[0] else 0, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
