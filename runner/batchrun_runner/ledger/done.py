"""Which prompts resume leaves alone: those of which every sample is done."""

from batchrun_runner.prompt_keys import sample_of


class DonePrompts:
    """Row numbers of done prompts, and of prompts that are done in part the samples that are."""

    def __init__(
        self,
        samples_per_prompt: int,
        whole: set[int] | None = None,
        in_part: dict[int, set[int]] | None = None,
    ) -> None:
        """`whole` and `in_part`, where they are given, are what is known already, and are added to."""
        self.whole = set() if whole is None else whole
        self.in_part = {} if in_part is None else in_part
        self._samples = samples_per_prompt

    def add(self, index: int, key: str) -> None:
        """The sample of this key is done. May be told twice; samples beyond those of the run count for nothing."""
        if self._samples == 1:
            self.whole.add(index)
            return
        sample = sample_of(key)
        if sample >= self._samples or index in self.whole:
            return
        done = self.in_part.setdefault(index, set())
        done.add(sample)
        if len(done) == self._samples:
            self.whole.add(index)
            del self.in_part[index]
