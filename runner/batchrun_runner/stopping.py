"""How work is asked to end: gently (start nothing new), or now (what is under way is interrupted and not stored)."""

import asyncio


class Stop:
    """Asked once or twice, by a signal, the operator or a fatal error. Read by everything that starts work."""

    def __init__(self) -> None:
        self._drain = asyncio.Event()
        self._now = asyncio.Event()
        self.why = ""
        """For people, from whoever asked first."""

    def drain(self, why: str) -> None:
        """Start no further prompt; finish what is under way."""
        self.why = self.why or why
        self._drain.set()

    def now(self, why: str) -> None:
        """Interrupt what is under way too."""
        self.drain(why)
        self._now.set()

    @property
    def is_asked(self) -> bool:
        """Nothing new may be started."""
        return self._drain.is_set()

    async def wait_now(self) -> None:
        """Returns when work under way must be interrupted."""
        await self._now.wait()
