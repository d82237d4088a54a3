"""Several processes on one file."""

import asyncio
from pathlib import Path

from mainspring.storage.migrations import migrations
from mainspring.storage.sqlite import SqliteStorage
from mainspring.storage.sqlite.dialect import PACKAGE
from tests.integration.sqlite.acting import asked_aside, claim, python

PUBLISHING = """
import asyncio, sys
from mainspring.storage.sqlite import SqliteStorage
from tests.integration.sqlite.acting import draft

async def main():
    storage = SqliteStorage(sys.argv[1])
    await storage.open()
    await storage.schema.migrate()
    for _ in range(40):
        await asyncio.gather(*(storage.mailbox.publish([draft()]) for _ in range(5)))
    await storage.close()

asyncio.run(main())
"""

CLAIMING = """
import asyncio, sys
from mainspring.storage.sqlite import SqliteStorage
from tests.integration.sqlite.acting import claim

async def main():
    storage = SqliteStorage(sys.argv[1])
    await storage.open()
    while held := await claim(storage, 7):
        print(*(delivery.id for delivery in held), sep="\\n")
    await storage.close()

asyncio.run(main())
"""


async def test_several_processes_start_and_publish_at_once_on_a_new_file(tmp_path: Path) -> None:
    path = str(tmp_path / "shop.db")

    processes = [await python(PUBLISHING, path) for _ in range(3)]
    codes = await asyncio.gather(*(process.wait() for process in processes))

    assert codes == [0, 0, 0]
    assert asked_aside(path, "SELECT count(*) FROM mainspring_delivery") == [(600,)]
    assert asked_aside(path, "SELECT number FROM mainspring_migration") == [
        (each.number,) for each in migrations(PACKAGE)
    ]
    assert asked_aside(path, "PRAGMA integrity_check") == [("ok",)]


async def test_no_delivery_is_handed_to_two_processes(storage: SqliteStorage, path: str) -> None:
    process = await python(PUBLISHING, path)
    assert await process.wait() == 0

    processes = [await python(CLAIMING, path) for _ in range(3)]
    outputs = await asyncio.gather(*(process.communicate() for process in processes))

    claimed = [int(line) for output, _ in outputs for line in output.split()]
    assert len(claimed) == len(set(claimed)) == 200
    assert await claim(storage) == []
