"""A path in a sandbox that nothing in it could have known before."""

import secrets

from batchrun_runner.sandbox.backend import SandboxLease
from batchrun_runner.sandbox.errors import SandboxError

_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "~")  # noqa: S108 - the sandbox's, with a name that nobody can know


async def fresh_file(lease: SandboxLease, name: str) -> str:
    """A path in a new folder of a name that nothing in the sandbox could know. Raises SandboxError."""
    # Where the helper is no container's first process, the file system is the user's own: only its home is ours.
    folders = _FOLDERS if lease.sandbox.hello.pid1 else ("~",)
    for folder in folders:
        try:
            made = await lease.sandbox.make_directory(f"{folder}/.verdict-{secrets.token_hex(16)}", cwd=lease.cwd)
        except SandboxError as error:
            refused = error
            continue
        return f"{made.path}/{name}"
    raise refused
