"""Each role may do what the page says, no more and no less, by the statements that ``mainspring grants`` prints."""

import re
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import pytest

from mainspring.cli.commands import run
from mainspring.model.errors import NotGranted
from mainspring.model.roles import ROLES, Lacking, Role
from mainspring.storage.migrations import Migration, migrations
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres import schema as migrating
from mainspring.storage.postgres.dialect import PACKAGE
from tests.faults.report import Report
from tests.integration.postgres.grants import execute, grant, login, printed
from tests.integration.postgres.role_operations import OPERATIONS, Scene, Shop

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "roles.md"
YES, NO = "✓", "–"
OLD = 10
"""How many migrations an old schema has: before unique keys, limits, fan-outs, and columns that operators write."""


def documented() -> dict[str, dict[Role, str]]:
    """The cells of the page, by operation and role."""
    rows = re.findall(r"^\| (.+?) \|((?: [✓–] \|){5})$", PAGE.read_text(), re.MULTILINE)
    return {name: dict(zip(ROLES, cells.replace("|", " ").split(), strict=True)) for name, cells in rows}


@pytest.fixture
def logins(postgres_url: str, postgres_schema: str) -> Iterator[dict[Role, str]]:
    """The URLs of roles of the server that may log in, and nothing else, by what they are to be."""
    with ExitStack() as stack:
        yield {role: stack.enter_context(login(postgres_url, f"{role}-{postgres_schema}")) for role in ROLES}


@pytest.fixture
def roles(logins: dict[Role, str], postgres_url: str, postgres_schema: str) -> dict[Role, str]:
    """The same, once they are granted what the command prints."""
    for role in logins:
        grant(postgres_url, postgres_schema, role, f"{role}-{postgres_schema}")
    return logins


async def migrate(url: str, schema: str) -> list[str]:
    storage = PostgresStorage(url, schema=schema)
    try:
        return await storage.schema.migrate()
    finally:
        await storage.close()


async def lacking(url: str, schema: str) -> Lacking:
    storage = PostgresStorage(url, schema=schema)
    try:
        return await storage.schema.lacking()
    finally:
        await storage.close()


async def opened(stack: AsyncExitStack, url: str, schema: str) -> Shop:
    shop = Shop(url, schema)
    await stack.enter_async_context(shop.app)
    stack.push_async_callback(shop.storage.close)
    return shop


async def tried(operation: str, scene: Scene) -> str:
    try:
        await OPERATIONS[operation](scene)
    except NotGranted:
        return NO
    return YES


async def matrix(roles: Mapping[Role, str], url: str, schema: str) -> dict[str, dict[Role, str]]:
    """Try every operation as each role."""
    found: dict[str, dict[Role, str]] = {name: {} for name in OPERATIONS}
    async with AsyncExitStack() as stack:
        owners = await opened(stack, url, schema)
        await owners.app.declare()
        serial: list[int] = []
        for role, own in roles.items():
            shop = await opened(stack, own, schema)
            for operation in OPERATIONS:
                found[operation][role] = await tried(operation, Scene(schema, shop, owners, serial))
    return found


async def test_every_role_may_do_what_the_page_says(
    roles: dict[Role, str], postgres_url: str, postgres_schema: str, request: pytest.FixtureRequest
) -> None:
    found = await matrix(roles, postgres_url, postgres_schema)

    lines = ["  ".join(f"{cells[role]:^{len(role)}}" for role in ROLES) + f"  {name}" for name, cells in found.items()]
    Report(request.node)("roles", *("\n" + line for line in ["  ".join(ROLES), *lines]))
    assert found == documented()


@pytest.mark.no_schema
async def test_roles_of_an_old_schema_may_do_the_same_once_it_is_migrated(
    logins: dict[Role, str], postgres_url: str, postgres_schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    del logins["migrate"]
    earlier = migrations(PACKAGE)[:OLD]
    with monkeypatch.context() as before:
        before.setattr(migrating, "migrations", lambda _package: earlier)
        await migrate(postgres_url, postgres_schema)
    for role, url in logins.items():
        for statement in (await lacking(url, postgres_schema))[role]:
            execute(postgres_url, statement)

    await migrate(postgres_url, postgres_schema)

    told = documented()
    found = await matrix(logins, postgres_url, postgres_schema)
    assert found == {name: {role: told[name][role] for role in logins} for name in told}


@pytest.mark.no_schema
async def test_a_migration_widens_no_role_that_lacks_a_right_of_its_kind(
    logins: dict[Role, str], postgres_url: str, postgres_schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = migrations(PACKAGE)[:OLD]
    with monkeypatch.context() as before:
        before.setattr(migrating, "migrations", lambda _package: earlier)
        await migrate(postgres_url, postgres_schema)
    name = f"read-{postgres_schema}"
    execute(postgres_url, f'GRANT USAGE ON SCHEMA {postgres_schema} TO "{name}"')
    execute(postgres_url, f'GRANT SELECT ON {postgres_schema}.migration, {postgres_schema}.message TO "{name}"')

    await migrate(postgres_url, postgres_schema)

    left = (await lacking(logins["read"], postgres_schema))["read"]
    assert f'GRANT SELECT ON "{postgres_schema}".likeness TO "{name}";' in left


async def test_an_owner_migrates_a_schema_that_it_was_given(
    roles: dict[Role, str], postgres_url: str, postgres_schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Migration(9000, "9000_later", "CREATE TABLE mainspring.later (n integer);\n", breaking=False)
    altering = "ALTER TABLE mainspring.delivery ADD COLUMN later integer;\n"
    column = Migration(9001, "9001_later", altering, breaking=False)
    every = (*migrations(PACKAGE), table, column)
    monkeypatch.setattr(migrating, "migrations", lambda _package: every)

    assert await migrate(roles["migrate"], postgres_schema) == ["9000_later", "9001_later"]


@pytest.mark.no_schema
async def test_an_owner_begins_in_a_schema_that_was_made_for_it(
    logins: dict[Role, str], postgres_url: str, postgres_schema: str
) -> None:
    grant(postgres_url, postgres_schema, "migrate", f"migrate-{postgres_schema}")

    applied = await migrate(logins["migrate"], postgres_schema)

    assert applied == [each.name for each in migrations(PACKAGE)]


async def test_the_default_privileges_are_those_of_the_named_owner(
    roles: dict[Role, str], postgres_url: str, postgres_schema: str
) -> None:
    reader, owner = f"read-{postgres_schema}", f"migrate-{postgres_schema}"
    execute(postgres_url, printed("--role", "read", reader, "--schema", postgres_schema, "--owner", owner))

    execute(roles["migrate"], f"CREATE TABLE {postgres_schema}.later (n integer)")

    execute(roles["read"], f"SELECT n FROM {postgres_schema}.later")


def test_names_are_quoted() -> None:
    statements = printed("--role", "read", 'an "odd" name', "--schema", "user", "--namespace", "staging")

    assert 'GRANT USAGE ON SCHEMA "user-staging" TO "an ""odd"" name";' in statements.splitlines()


def test_the_tables_are_those_of_the_environment_or_of_an_application(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "granted.py").write_text(
        "from mainspring import Mainspring\napp = Mainspring('postgresql://db/shop', schema='of_app')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("MAINSPRING_NAMESPACE", "staging")

    assert 'SCHEMA "mainspring-staging" TO "ann"' in printed("--role", "read", "ann")
    assert 'SCHEMA "of_app-staging" TO "ann"' in printed("--role", "read", "ann", "--app", "granted:app")
    assert 'SCHEMA "mainspring-other" TO "ann"' in printed("--role", "read", "ann", "--namespace", "other")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--role", "publish", ""], "cannot be the name of a role: use 1 to 63 bytes"),
        (["--role", "publish", "n" * 64], "cannot be the name of a role: use 1 to 63 bytes"),
        (["--role", "publish", "web", "--url", "sqlite:///shop.db"], "grants are for PostgreSQL: sqlite has no roles"),
        (["--role", "publish", "web", "--schema", "Shop"], "schema='Shop'"),
        (["--role", "owner", "web"], "owner"),
        (["web"], "--role"),
    ],
)
def test_bad_arguments_are_told(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["grants", *arguments]) != 0

    assert told in capsys.readouterr().err
