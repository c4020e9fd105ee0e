"""The data set: from bytes at some address to valid prompts and named faults, as a stream."""
