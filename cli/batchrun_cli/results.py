"""What lies in the store: figures, failed prompts, and all of it as a folder."""

import base64
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson

from batchrun_cli.cluster import RunAccess, Seen
from batchrun_cli.errors import CommandError
from batchrun_runner.export.errors import ExportFailed
from batchrun_runner.export.reading import read_rows
from batchrun_runner.ledger import layout
from batchrun_runner.storage.errors import NotFound, StorageError
from batchrun_runner.storage.s3 import S3Store, endpoint_of, keys_from
from batchrun_runner.storage.store import Listed, ObjectStore

STATE = ".batchrun-download.json"
"""In the folder: which version of each object lies there."""
_RESUMES_WITH = (layout.LEDGERS, layout.PARTS, layout.PLANS, layout.CONFIGS)


async def store_of(run: RunAccess, seen: Seen, environ: Mapping[str, str], endpoint_url: str | None) -> S3Store:
    """The run's store, with the keys of AWS_* or a profile, else those of the run's Secret."""
    if seen.spec.output is None:
        raise CommandError(f"{run.what} has no output")
    place = seen.spec.output.s3
    access = place.model_copy(update={"endpoint_url": endpoint_url}) if endpoint_url else place
    keys = None
    if place.credentials_secret_ref and not (environ.get("AWS_ACCESS_KEY_ID") or environ.get("AWS_PROFILE")):
        data = await run.secret(place.credentials_secret_ref.name)
        keys = keys_from({name: base64.b64decode(value).decode().strip() for name, value in data.items()}, "")
        if keys is None:
            raise CommandError(f"the Secret {place.credentials_secret_ref.name} holds no AWS keys; set AWS_*")
    return S3Store(place.bucket, f"{place.prefix}/{seen.run_name}", endpoint_of(access, keys))


def statistics(store: S3Store) -> dict[str, Any]:
    """statistics.json. Raises CommandError."""
    try:
        document: dict[str, Any] = orjson.loads(store.get(layout.STATISTICS).body)
    except NotFound as error:
        raise CommandError(f"{store.place}: no statistics yet, the merge at the end writes them") from error
    except StorageError as error:
        raise CommandError(str(error)) from error
    return document


def failed_rows(store: S3Store) -> Iterator[dict[str, Any]]:
    """Every failed prompt of the merged result, in the form of `status.failures`. Raises CommandError."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / layout.TRAJECTORIES
        try:
            store.download(layout.TRAJECTORIES, file)
            for item in read_rows(file):
                row = item.row
                if row["outcome"] == "failed":
                    yield {name: row[column] for name, column in _FAILURE_COLUMNS.items()}
        except NotFound as error:
            raise CommandError(f"{store.place}: no result yet, the merge at the end writes it") from error
        except (StorageError, ExportFailed) as error:
            raise CommandError(str(error)) from error


_FAILURE_COLUMNS = {"promptIndex": "prompt_index", "id": "id", "reason": "reason", "message": "message"}


def download(store: ObjectStore, folder: Path, *, everything: bool, tell: Callable[[str, int, int], None]) -> int:
    """Bring a run's objects into a folder; what lies there in the same version is left. Returns how many were fetched.

    `tell(key, number, of)` before each. Raises CommandError.
    """
    try:
        wanted = [item for item in store.listing() if everything or not item.key.startswith(_RESUMES_WITH)]
        if not wanted:
            raise CommandError(f"{store.place}: nothing is stored there")
        folder.mkdir(parents=True, exist_ok=True)
        state = _read_state(folder)
        missing = [item for item in wanted if not _is_there(folder, state, item)]
        for number, item in enumerate(missing, 1):
            tell(item.key, number, len(missing))
            target = _target(folder, item.key)
            target.parent.mkdir(parents=True, exist_ok=True)
            store.download(item.key, target)
            state[item.key] = item.etag
            _write_state(folder, state)
    except StorageError as error:
        raise CommandError(f"{error}; the same command goes on from here") from error
    except OSError as error:
        raise CommandError(
            f"{error.filename or folder}: {error.strerror}; the same command goes on from here"
        ) from error
    return len(missing)


def _target(folder: Path, key: str) -> Path:
    target = folder / key
    if ".." in Path(key).parts or not target.resolve().is_relative_to(folder.resolve()):
        raise CommandError(f"{key}: leads out of the folder, so nothing of it is fetched")
    return target


def _is_there(folder: Path, state: Mapping[str, str], item: Listed) -> bool:
    file = folder / item.key
    return state.get(item.key) == item.etag and file.is_file() and file.stat().st_size == item.size_bytes


def _read_state(folder: Path) -> dict[str, str]:
    try:
        state = orjson.loads((folder / STATE).read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return {}
    return state if isinstance(state, dict) else {}


def _write_state(folder: Path, state: Mapping[str, str]) -> None:
    draft = folder / f"{STATE}.new"
    draft.write_bytes(orjson.dumps(state))
    draft.replace(folder / STATE)
