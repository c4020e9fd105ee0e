"""`batchrun demo-model`: serve until interrupted or terminated."""

import asyncio
import signal
import sys
from pathlib import Path

from batchrun_runner.demo_model.script import Script, ScriptError, load_script
from batchrun_runner.demo_model.server import serve


def serve_forever(host: str, port: int, delay_ms: int, script: Path | None) -> int:
    """Serve and say where. Exit code: 0 after SIGINT or SIGTERM, 2 when the script or the address cannot be used."""
    try:
        entries = load_script(script) if script is not None else ()
        asyncio.run(_until_signalled(host, port, delay_ms, entries))
    except (ScriptError, OSError) as error:
        sys.stderr.write(f"demo-model: {error}\n")
        return 2
    return 0


async def _until_signalled(host: str, port: int, delay_ms: int, script: Script) -> None:
    serving = asyncio.ensure_future(serve(host=host, port=port, delay_ms=delay_ms, script=script, started=_say_where))
    for number in (signal.SIGINT, signal.SIGTERM):
        # SIGTERM too: as PID 1 of a container it would be ignored otherwise.
        asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
    try:
        await serving
    except asyncio.CancelledError:
        return


def _say_where(base_url: str) -> None:
    sys.stdout.write(f"demo model (scripted, no model) on {base_url}\n")
    sys.stdout.flush()
