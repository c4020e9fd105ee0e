"""What the operator says to a running batch: the pod's annotation, which a downwardAPI volume shows as a file."""

import asyncio
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from batchrun_api.messages import SandboxSignal, Signals
from batchrun_api.names import SIGNALS_FILE
from batchrun_runner.stopping import Stop

_POLL_SECONDS = 0.5


class SignalsFile:
    """The newest signals. A file that is not there, or half there, says nothing new."""

    def __init__(self, stop: Stop, path: Path = Path(SIGNALS_FILE)) -> None:
        self._stop = stop
        self._path = path
        self._seen = b""
        self._signals = Signals()

    def of_sandbox(self, index: int) -> SandboxSignal | None:
        """What happened to sandbox `index`, as far as the operator has said."""
        self.read()
        return self._signals.sandboxes.get(index)

    def newest(self) -> Signals:
        """All that the operator has said."""
        self.read()
        return self._signals

    def read(self) -> None:
        """Take what is new; a stop is handed on."""
        with suppress(OSError, ValidationError):
            body = self._path.read_bytes()
            if body and body != self._seen:
                self._signals, self._seen = Signals.model_validate_json(body), body
        if self._signals.stop:
            self._stop.drain("the operator asked for it")

    async def watch(self) -> None:
        """Read until cancelled: the volume changes by itself, and there is nothing to be woken by."""
        while True:
            self.read()
            await asyncio.sleep(_POLL_SECONDS)
