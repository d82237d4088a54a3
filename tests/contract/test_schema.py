"""The schema: nothing, then everything, applied once however many start."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio

from mainspring.model.errors import SchemaDamaged, SchemaMissing
from mainspring.storage.contract import Storage
from mainspring.storage.script import Script, Statement
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

    with pytest.raises(SchemaMissing, match=r"schema( 'new_\w+')?: run `mainspring migrate --app MODULE:APP`"):
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


async def drop(storage: Storage, sql: str) -> None:
    """Have a statement run behind Mainspring's back."""

    def script() -> Script[None]:
        yield Statement(sql)

    await storage._gateway.run(script(), "write")  # type: ignore[attr-defined]


def table(storage: Storage, name: str) -> str:
    """The name of a table, as the database spells it."""
    names: Any = getattr(storage, "_names", None)
    return f"{names.schema}.{name}" if names is not None else f"{storage._shared.dialect.prefix}_{name}"  # type: ignore[attr-defined]


async def test_everything_that_migrations_create_is_known_and_nothing_is_missing(new: Storage) -> None:
    assert await new.schema.missing() == []

    await new.schema.migrate()

    assert await new.schema.missing() == []


async def test_a_table_that_was_dropped_is_named_and_not_made_again_without_its_content(new: Storage) -> None:
    await new.schema.migrate()
    gone = table(new, "likeness")
    await drop(new, f"DROP TABLE {gone}")

    [missing] = await new.schema.missing()

    assert (str(missing), missing.statements) == (f"table {gone}", ())
    assert "restore it from a backup" in missing.remedy
    with pytest.raises(SchemaDamaged, match=rf"table {gone} is missing, .*: its content is lost") as caught:
        await new.schema.migrate()
    assert caught.value.missing == (f"table {gone}",)


async def test_a_lost_record_of_the_migrations_is_no_empty_database(new: Storage) -> None:
    await new.schema.migrate()
    gone = table(new, "migration")
    await drop(new, f"DROP TABLE {gone}")

    with pytest.raises(SchemaDamaged, match=rf"table {gone} is missing, .*other tables of Mainspring are there"):
        await new.schema.migrate()
