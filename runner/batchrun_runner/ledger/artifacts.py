"""Objects of what was brought out of a sandbox: under names that neither S3 nor a folder can misread.

`<place>files/<relative path>`, `<place>root/<absolute path>`, `<place>command.out`.
"""

from dataclasses import dataclass

from batchrun_runner.storage.store import ObjectStore

_COMPONENT_LIMIT_BYTES = 255
"""Of file systems."""
_KEY_LIMIT_BYTES = 900
"""S3 takes 1,024 bytes, of which the run's own prefix needs some."""


@dataclass(frozen=True, slots=True)
class ArtifactPlace:
    """Where one attempt's artifacts lie in the run's store. Methods block."""

    store: ObjectStore
    place: str

    def keep(self, path: str, data: bytes) -> str:
        """Store a file, durably. Returns why it cannot be stored; empty: it is. Raises StorageError."""
        key = object_name(path)
        if key is None:
            return "its name is too long to be stored"
        self.store.put(self.place + key, data)
        return ""

    def keep_output(self, data: bytes) -> None:
        """Store the command's output, durably. Raises StorageError."""
        self.store.put(self._output, data)

    def read(self, path: str) -> bytes:
        """A file that was kept. Raises StorageError, NotFound where it is gone."""
        return self.store.get(f"{self.place}{object_name(path)}").body

    def read_output(self) -> bytes:
        """The command's output. Raises as `read`."""
        return self.store.get(self._output).body

    @property
    def _output(self) -> str:
        return f"{self.place}command.out"


def object_name(path: str) -> str | None:
    """The key below the place for a path of a sandbox; None where it is too long."""
    components = [_escaped(name) for name in path.split("/") if name]
    key = "/".join(["root" if path.startswith("/") else "files", *components])
    is_long = any(len(name.encode()) > _COMPONENT_LIMIT_BYTES for name in components)
    return None if is_long or not components or len(key.encode()) > _KEY_LIMIT_BYTES else key


def _escaped(name: str) -> str:
    """What is no plain character by its bytes, as in URLs; `.` only where it begins a name, which hides files."""
    escaped = "".join(char if char.isprintable() and char not in "%\\" else _by_bytes(char) for char in name)
    return f"%2E{escaped[1:]}" if escaped.startswith(".") else escaped


def _by_bytes(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "replace"))
