"""What clients and handlers wrote down themselves: the oracle, kept apart from the tables it judges."""

import json
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from uuid import UUID

Outcome = Literal["invoked", "ok", "failed", "unknown"]


class Ledger:
    """Every publish of one client: a line before the call and a line after it, each on disk before going on."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._last: dict[UUID, Outcome] = {}

    def note(self, outcome: Outcome, ids: Iterable[UUID]) -> None:
        """Write one line per message; they are on disk when this returns."""
        noted = list(ids)
        os.write(self._file, "".join(f"{outcome} {id}\n" for id in noted).encode())
        os.fsync(self._file)
        self._last.update(dict.fromkeys(noted, outcome))

    def ids(self, *outcomes: Outcome) -> set[UUID]:
        """Messages whose last line says one of these; a call that never returned is unknown."""
        return {id for id, last in self._last.items() if last in outcomes}

    def close(self) -> None:
        os.close(self._file)


def read_ledger(path: Path) -> dict[UUID, Outcome]:
    """The last line about each message, as another process left it."""
    found: dict[UUID, Outcome] = {}
    for line in path.read_text().splitlines():
        outcome, id = line.split()
        found[UUID(id)] = outcome  # type: ignore[assignment]
    return found


@dataclass(frozen=True, slots=True)
class Execution:
    """One run of a handler, as its own process saw it; times are the machine's one monotonic clock."""

    id: UUID
    n: int
    epoch: int
    attempt: int
    pid: int
    began: float
    ended: float | None
    outcome: str | None
    schedule: str | None = None
    due: int = 0
    """Of an occurrence: its due time, in microseconds of the epoch."""
    group: str | None = None
    key: str | None = None
    claimed: int = 0
    """Under limits: when it was claimed by the database's clock, in microseconds of the epoch."""


class Effects:
    """Written by handlers: one file per process, a line when a run begins and one when it ends."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        name = f"{os.getpid()}-{time.monotonic_ns()}.jsonl"
        self._file = os.open(folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def begin(self, id: UUID, n: int, epoch: int, attempt: int, **more: object) -> None:
        self._write(what="begin", id=str(id), n=n, epoch=epoch, attempt=attempt, **more)

    def end(self, id: UUID, epoch: int, outcome: str) -> None:
        self._write(what="end", id=str(id), epoch=epoch, outcome=outcome)

    def _write(self, **line: object) -> None:
        # One write of one short line: kill −9 leaves it whole or not at all.
        line |= {"at": time.monotonic(), "pid": os.getpid()}
        os.write(self._file, json.dumps(line).encode() + b"\n")


def executions(folder: Path) -> list[Execution]:
    """Every run that began, in the order in which they began."""
    found = [each for path in folder.glob("*.jsonl") for each in _written(path)]
    return sorted(found, key=lambda each: each.began)


_read: dict[Path, tuple[int, list[Execution]]] = {}
"""What files said at which size: they only grow, and those of processes that were killed no longer do."""


def _written(path: Path) -> list[Execution]:
    size = path.stat().st_size
    if _read.get(path, (-1, []))[0] != size:
        with path.open("rb") as file:
            # The last line may be on its way: a reader may see the beginning of a write.
            whole = file.read(size).rpartition(b"\n")[0]
        lines = [json.loads(line) for line in whole.splitlines()]
        ends = {(line["id"], line["epoch"]): line for line in lines if line["what"] == "end"}
        _read[path] = size, list(_executions(lines, ends))
    return _read[path][1]


def _executions(lines: list[dict[str, object]], ends: dict[tuple[str, int], dict[str, object]]) -> Iterator[Execution]:
    for line in lines:
        if line["what"] != "begin":
            continue
        end = ends.get((line["id"], line["epoch"]), {})  # type: ignore[arg-type]
        yield Execution(
            UUID(str(line["id"])),
            line["n"],  # type: ignore[arg-type]
            line["epoch"],  # type: ignore[arg-type]
            line["attempt"],  # type: ignore[arg-type]
            line["pid"],  # type: ignore[arg-type]
            line["at"],  # type: ignore[arg-type]
            end.get("at"),  # type: ignore[arg-type]
            end.get("outcome"),  # type: ignore[arg-type]
            line.get("schedule"),  # type: ignore[arg-type]
            line.get("due", 0),  # type: ignore[arg-type]
            line.get("group"),  # type: ignore[arg-type]
            line.get("key"),  # type: ignore[arg-type]
            line.get("claimed", 0),  # type: ignore[arg-type]
        )
