"""For all tests: no deadline for properties, since a busy machine is no fault, and the same examples in every run."""

from hypothesis import settings

settings.register_profile("batchrun", deadline=None, derandomize=True)
settings.load_profile("batchrun")
