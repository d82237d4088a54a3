"""Receivers that are killed −9 between letting a message in and the commit: as many effects as messages, exactly."""

import asyncio
import json
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from mainspring import Mainspring
from tests.faults.nursery import nursery
from tests.faults.receiver import connect
from tests.faults.report import Report
from tests.faults.waiting import PATIENCE, until

PROCESSES = 3
EVERY = 4
"""Of the messages that are let in, every so manieth costs its process the life, until there were enough kills."""


@dataclass
class Found:
    """What became of the messages; the last two are empty when all is well."""

    messages: int
    kills: int
    effects: int
    missing: set[str]
    doubled: set[str]

    @property
    def flawless(self) -> bool:
        return not self.missing and not self.doubled

    def line(self) -> str:
        return (
            f"kills={self.kills} messages={self.messages} effects={self.effects} missing={len(self.missing)} "
            f"doubled={len(self.doubled)}"
        )


class Post:
    """A database with an inbox and a table of effects, and what is sent to its receivers."""

    def __init__(self, url: str, schema: str) -> None:
        self.url = url
        self.schema = schema
        self.let_in = 0
        self.kills = 0
        app = Mainspring(url, name="receivers", schema=schema)
        app.sync.migrate()
        app.sync.close()
        with closing(connect(url)) as connection:
            connection.execute(f"CREATE TABLE {schema}_effect (id text NOT NULL)")
            connection.commit()

    async def send(self, messages: int, kills: int, bug: str) -> Found:
        """Send all messages to several receivers at once, each again to whoever replaces one that was killed."""
        async with asyncio.timeout(300):
            await asyncio.gather(*(self._receiver(messages, kills, bug) for _ in range(PROCESSES)))
        with closing(connect(self.url)) as connection:
            effects = Counter(id for (id,) in connection.execute(f"SELECT id FROM {self.schema}_effect").fetchall())
        sent = {f"evt_{number}" for number in range(messages)}
        doubled = {id for id, count in effects.items() if count > 1}
        return Found(messages, self.kills, effects.total(), sent - set(effects), doubled)

    async def _receiver(self, messages: int, kills: int, bug: str) -> None:
        while not await self._life(messages, kills, bug):
            pass

    async def _life(self, messages: int, kills: int, bug: str) -> bool:
        """Whether it has received everything; False: it was killed."""
        ours, theirs = socket.socketpair()
        with theirs:
            argument = json.dumps([self.url, self.schema, messages, bug])
            process = nursery().start("tests.faults.receiver", argument, theirs)
        reader, writer = await asyncio.open_connection(sock=ours)
        try:
            async for line in reader:
                if line == b"over\n":
                    await until("the receiver to end", lambda: process.poll() is not None)
                    return True
                assert line.startswith(b"inside"), line + await reader.read()
                self.let_in += 1
                if self.let_in % EVERY == 0 and self.kills < kills:
                    self.kills += 1
                    return False
                writer.write(b"\n")
                await writer.drain()
            raise AssertionError("a receiver ended by itself")
        finally:
            process.kill()
            process.wait(PATIENCE)
            writer.close()


@pytest.fixture
def post(engine: str, tmp_path: Path, postgres_url: str, postgres_schema: str) -> Iterator[Post]:
    if engine == "sqlite":
        yield Post(f"sqlite:///{tmp_path}/inbox.db", "mainspring")
        return
    post = Post(postgres_url, postgres_schema)
    yield post
    with closing(connect(postgres_url)) as connection:
        connection.execute(f"DROP TABLE {postgres_schema}_effect")
        connection.commit()


@pytest.mark.timeout(600)
async def test_there_are_as_many_effects_as_messages_though_receivers_are_killed_before_they_commit(
    post: Post, engine: str, report: Report, large: bool
) -> None:
    messages, kills = (2000, 200) if large else (60, 8)

    found = await post.send(messages, kills, "none")

    report(f"inbox, kill −9 between admit and commit, {engine}", found.line())
    assert found.flawless, found
    assert (found.effects, found.kills) == (messages, kills)


@pytest.mark.parametrize(("bug", "fault"), [("apart", "missing"), ("unasked", "doubled")])
async def test_a_receiver_that_marks_apart_from_its_effects_or_not_at_all_is_found_out(
    post: Post, report: Report, bug: str, fault: str
) -> None:
    found = await post.send(12, 2, bug)

    report(f"teeth: inbox, {bug}", found.line(), f"(must be {fault}>0)")
    assert getattr(found, fault)
    assert not found.flawless
