"""What the runner container of `bench sandbox` runs, sent there as text: it has nothing but the runner's own package.

Arguments: number of sandboxes, number of commands. One JSON line with the figures, then it waits for its pod's end, so
that `pods/exec` can be measured in the same pod.
"""

import asyncio
import json
import sys
import time

from batchrun_runner.sandbox.backend import SandboxLease, SandboxRequest
from batchrun_runner.sandbox.errors import SandboxError
from batchrun_runner.sandbox.pod import PodBackend

WARM_UPS = 20
USAGE_FILES = ("/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory/memory.usage_in_bytes")
"""Of cgroup v2 and v1."""


async def first_line_with(lease: SandboxLease, path: str, word: str) -> str:
    """A line of a file in the sandbox, read by the helper itself: no command has run, none is started."""
    found = await lease.sandbox.read_lines(
        path, cwd="/", first_line=1, limit_lines=100, limit_bytes=10_000, max_line_bytes=200
    )
    return next(line for line in found.lines if word in line)


async def idle_bytes(lease: SandboxLease) -> tuple[int, int]:
    """Resident memory of a helper that has done nothing yet, and what its container is charged for."""
    resident = int((await first_line_with(lease, "/proc/1/status", "VmRSS")).split()[1]) * 1024
    for path in USAGE_FILES:
        try:
            return resident, int(await first_line_with(lease, path, ""))
        except SandboxError:
            continue
    return resident, 0


async def timed_command(lease: SandboxLease) -> float:
    """Seconds of `echo x`."""
    began = time.perf_counter()
    done = await lease.sandbox.exec("echo x", cwd="/", timeout_seconds=10, limit_bytes=1000)
    seconds = time.perf_counter() - began
    assert done.output.head == "x\n"
    return seconds


async def main(sandboxes: int, commands: int) -> None:
    """All figures, in seconds and bytes."""
    backend = PodBackend(sandboxes, deadline_seconds=300)
    began = time.perf_counter()
    came: list[float] = []

    async def opened(index: int) -> SandboxLease:
        lease = await backend.open(SandboxRequest(index))
        came.append(round(time.perf_counter() - began, 3))
        return lease

    leases = await asyncio.gather(*(opened(index) for index in range(sandboxes)))
    idle = [await idle_bytes(lease) for lease in leases]
    for _ in range(WARM_UPS):
        await timed_command(leases[0])
    seconds = [await timed_command(leases[0]) for _ in range(commands)]
    figures = {"came": came, "resident": [one for one, _ in idle], "charged": [two for _, two in idle]}
    # In whole microseconds: a line of a container's log is cut at 16 KiB.
    print(json.dumps(figures | {"microseconds": [round(one * 1e6) for one in seconds]}), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
