"""A database on which two releases work: the earlier one in processes of its own, from the source in the history."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from tests.services.needs import MARK, need

EARLIER = "f30c4c17b783f34ab857bdce6eaeef934f702dd6"
"""The earlier release: the last commit whose schema has no declarations, and whose namespaces are prefixes of names."""

ROOT = Path(__file__).parents[3]
PATIENCE = 60.0

Rows = dict[str, list[dict[str, Any]]]


def unpack(folder: Path) -> Path:
    """Unpack the source of the earlier release. Skips the test in a shallow clone or an archive, in CI too."""
    git = shutil.which("git") or "git"
    need(shutil.which("git"), "git", "apt install git")
    packed = subprocess.run([git, "archive", EARLIER, "src"], cwd=ROOT, capture_output=True, check=False)
    if packed.returncode != 0:
        pytest.skip(f"{MARK} commit {EARLIER[:7]} of the history (git fetch --unshallow, in a clone)")
    with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


@dataclass(slots=True)
class EarlierWorker:
    """A worker of the earlier release, in a process."""

    process: asyncio.subprocess.Process
    handled: list[list[Any]] = field(default_factory=list)
    """Group, message, moment, and the payload if it is a number."""
    published: list[str] = field(default_factory=list)
    """The messages it has published."""

    async def listen(self) -> None:
        """Read what it prints, to the end."""
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            match json.loads(line):
                case ["handled", *words]:
                    self.handled.append(words)
                case ["published", id]:
                    self.published.append(id)

    def publish(self) -> None:
        """Have it publish ten orders."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")


@dataclass(frozen=True, slots=True)
class Database:
    """A SQLite file, or a schema of PostgreSQL, and the source of the earlier release."""

    url: str
    options: dict[str, Any]
    source: Path

    async def write(self) -> Any:
        """Have the earlier release fill it with something of everything; returns what that release reads there."""
        process = await self._start("write", self.options)
        written, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
        assert process.returncode == 0
        told = json.loads(written)
        self._is_earlier(told["from"])
        return told["read"]

    @asynccontextmanager
    async def earlier_worker(self, **options: str) -> AsyncIterator[EarlierWorker]:
        """Run a worker of the earlier release, which migrates and declares before it starts."""
        process = await self._start("work", self.options | options)
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            _, file = json.loads(await asyncio.wait_for(process.stdout.readline(), PATIENCE))
            self._is_earlier(file)
            worker = EarlierWorker(process)
            listening = asyncio.create_task(worker.listen())
            yield worker
            process.stdin.close()
            async with asyncio.timeout(PATIENCE):
                await listening
                assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()

    def rows(self) -> Rows:
        """Every row of every table but that of the migrations, by table."""
        if self.options:
            schema = self.options["schema"]
            with psycopg.connect(self.url, row_factory=dict_row) as client:
                tables = "SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename <> 'migration'"
                names = [row["tablename"] for row in client.execute(tables, [schema])]
                return {each: client.execute(f"SELECT * FROM {schema}.{each}".encode()).fetchall() for each in names}
        with closing(sqlite3.connect(self.url.removeprefix("sqlite:///"))) as client:
            client.row_factory = sqlite3.Row
            tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'mainspring_migration'"
            names = [name for (name,) in client.execute(tables)]
            return {each: [dict(row) for row in client.execute(f"SELECT * FROM {each}")] for each in names}

    async def _start(self, task: str, options: dict[str, str]) -> asyncio.subprocess.Process:
        """Start a task of ``earlier.py``, with the earlier source before the installed one."""
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.integration.rehearsal.earlier", task, self.url, json.dumps(options)),
            env={**os.environ, "PYTHONPATH": str(self.source)},
            cwd=ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=2**24,
        )

    def _is_earlier(self, file: str) -> None:
        assert Path(file).is_relative_to(self.source), f"{file} is not the earlier release"
