"""Handlers that run in processes of their own, and what a test asks about those."""

from __future__ import annotations

import json
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil

from mainspring.model.message import Draft
from mainspring.runtime.handler import Handler
from mainspring.timing.backoff import NO_RETRY, RetryPolicy
from tests.runtime.computing import program
from tests.runtime.stage import Stage

MINUTE = timedelta(minutes=1)


def handler(qualname: str, *, retry: RetryPolicy = NO_RETRY, concurrency: int = 1, **options: Any) -> Handler:
    """A consumer whose function is that one of computing.py; all its runs are kept."""

    def never(*_: object) -> None:
        raise AssertionError("it was called in the worker itself")

    return Handler("work", never, retry, concurrency=concurrency, keep="all", program=program(qualname), **options)


async def publish(stage: Stage, *payloads: Any) -> list[uuid.UUID]:
    drafts = [Draft(uuid.uuid4(), "work", json.dumps(each).encode()) for each in payloads]
    await stage.storage.mailbox.publish(drafts)
    return [draft.id for draft in drafts]


async def outcomes(stage: Stage, chosen: Handler, count: int = 1, **settings: Any) -> list[tuple[str, str | None]]:
    """What became of so many runs, and what they said."""

    async def enough() -> bool:
        return len(await stage.runs()) >= count

    async with stage.worker(chosen, **settings):
        await stage.until(enough)
    return [(run.status, run.error or run.output) for run in await stage.runs()]


async def pids(stage: Stage, file: Path, count: int = 1) -> list[int]:
    """The numbers of processes that were left in the file, when there are so many."""
    await stage.until(lambda: file.exists() and file.read_text().count("\n") >= count)
    return [int(line) for line in file.read_text().split()]


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
