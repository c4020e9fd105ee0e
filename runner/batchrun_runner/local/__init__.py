"""`batchrun local`: plan, batches and merge in one process, on this machine. The same functions as in the pods.

`command` is the verb, `inputs` makes settings of a file and the environment, `backends` chooses where commands run,
`lock` keeps two processes out of one folder, `engine` runs the batches. `verify_command` and `regrading` judge
stored rows again.
"""

from batchrun_runner.local.command import run_local

__all__ = ["run_local"]
