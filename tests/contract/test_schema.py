"""The schema: nothing, then everything, applied once however many start."""

import asyncio
from collections.abc import AsyncIterator, Callable
from uuid import uuid4

import pytest
import pytest_asyncio

from mainspring.model.errors import SchemaMissing
from mainspring.storage.contract import Storage
from tests.contract.acting import claim, draft, ids, publish, siblings

pytestmark = pytest.mark.psycopg


@pytest_asyncio.fixture(loop_scope="session")
async def new(blank: Callable[[str], Storage]) -> AsyncIterator[Storage]:
    """An open storage without any tables."""
    storage = blank(f"new_{uuid4().hex[:8]}")
    await storage.open()
    yield storage
    await storage.close()


async def test_a_new_database_has_no_version_and_says_what_to_do(new: Storage) -> None:
    assert await new.schema.version() == 0

    with pytest.raises(SchemaMissing, match=r"run `mainspring migrate( --schema new_\w+)?`"):
        await new.schema.check()


async def test_a_migrated_database_is_ready_for_work(new: Storage) -> None:
    applied = await new.schema.migrate()

    assert len(applied) == await new.schema.version() > 0
    await new.schema.check()
    message = draft(group="mailer")
    await publish(new, message)
    assert ids(await claim(new)) == [message.id]


async def test_the_names_of_migrations_are_numbered_from_one(new: Storage) -> None:
    applied = await new.schema.migrate()

    assert [int(name[:4]) for name in applied] == list(range(1, len(applied) + 1))


@pytest.mark.memory
async def test_migrating_again_applies_nothing_and_keeps_everything(storage: Storage) -> None:
    message = draft(group="mailer")
    await publish(storage, message)

    again = await storage.schema.migrate()

    assert again == []
    assert ids(await claim(storage)) == [message.id]


async def test_each_migration_is_applied_once_however_many_start_together(new: Storage) -> None:
    async with siblings(new, 6) as doors:
        applied = await asyncio.gather(*(door.schema.migrate() for door in doors))

    names = [name for each in applied for name in each]
    assert len(names) == len(set(names)) == await new.schema.version()
