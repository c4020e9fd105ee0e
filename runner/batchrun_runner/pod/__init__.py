"""The verbs as they run in pods: a mounted configuration, S3 as the store, and what is left behind for the operator.

`steps` are the three verbs, `ending` turns their ends into exit codes and termination messages, `inputs` reads what is
mounted, `signals` what the operator says meanwhile, `logs` how it is told.
"""

from batchrun_runner.pod.steps import batch_step, merge_step, plan_step

__all__ = ["batch_step", "merge_step", "plan_step"]
