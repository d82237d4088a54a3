"""Schedules that run once for a fleet: in its home database, and in no other."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mainspring import Context, Fleet, Mainspring, every
from mainspring.app.observe.doctor import code_of
from mainspring.model.errors import BadOption, Conflict, Misuse, UnknownDatabase
from tests.integration.fleet.conftest import Make, Urls, until

QUICK: dict[str, Any] = {"longest_pause": "300ms", "idle": "1s"}


@pytest.fixture(params=["sqlite", "postgresql"])
def urls(request: pytest.FixtureRequest, files: Make, servers: Make) -> Urls:
    """Two databases: files, or databases of a server."""
    return (files if request.param == "sqlite" else servers)("acme", "bolt")


class Release:
    """One release of an app, in which *digest* runs once for the fleet and *local* in each database."""

    def __init__(self, urls: Any, home: str | None = "acme", scope: Any = "fleet", **options: Any) -> None:
        self.app = Mainspring("fleet://", name="shop")
        self.ran: list[tuple[str, str]] = []
        self.app.recurring(every("500ms"), name="digest", scope=scope, **options)(self._digest)
        self.app.recurring(every("500ms"), name="local")(self._local)
        self.fleet = Fleet(self.app, urls, home=home)

    async def _digest(self, ctx: Context) -> None:
        await self._note("digest")

    async def _local(self, ctx: Context) -> None:
        await self._note("local")

    async def _note(self, name: str) -> None:
        place = self.app._side.place
        self.ran.append((name, next(each for each in self.fleet if self.fleet[each]._own.place is place)))

    async def declared(self, name: str) -> dict[str, bool]:
        """Return in which databases it is stored, and whether it is followed there."""
        found = {each: await self.fleet[each].schedules.get(name) for each in self.fleet}
        return {each: view.state != "retired" for each, view in found.items() if view is not None}


@pytest.mark.parametrize("options", [{}, {"topic": "digests.due"}])
async def test_a_schedule_of_the_fleet_runs_in_its_home_alone(urls: Urls, options: dict[str, Any]) -> None:
    release = Release(urls, **options)
    await release.fleet.migrate()

    async with release.fleet.worker(**QUICK):
        await until(lambda: {("local", "acme"), ("local", "bolt"), ("digest", "acme")} <= {*release.ran})
        assert await release.declared("digest") == {"acme": True}
        assert await release.declared("local") == {"acme": True, "bolt": True}

    assert ("digest", "bolt") not in release.ran


async def test_a_home_that_changes_ends_the_schedule_where_it_was(urls: Urls, caplog: pytest.LogCaptureFixture) -> None:
    before, after = Release(urls), Release(urls, home="bolt")
    await before.fleet.migrate()
    async with before.fleet.worker(**QUICK):
        await until(lambda: ("digest", "acme") in before.ran)

    async with after.fleet.worker(**QUICK):
        await until(lambda: ("digest", "bolt") in after.ran and ("local", "acme") in after.ran)
        assert await after.declared("digest") == {"acme": False, "bolt": True}

    assert sum("runs once for the fleet, in another database" in each.message for each in caplog.records) == 1
    # Nothing is left of it to begin there, and an operator may remove it.
    async with after.fleet as fleet:
        await fleet["acme"].schedules.delete("digest")
        assert await after.declared("digest") == {"bolt": True}


async def test_a_schedule_that_becomes_one_of_the_fleet_ends_in_the_other_databases(urls: Urls) -> None:
    before, after = Release(urls, scope="database"), Release(urls)
    await before.fleet.migrate()
    await before.fleet.declare()

    await after.fleet.declare()
    async with after.fleet:
        assert await after.declared("digest") == {"acme": True, "bolt": False}

    # And back.
    again = Release(urls, scope=None)
    await again.fleet.declare()
    async with again.fleet:
        assert await again.declared("digest") == {"acme": True, "bolt": True}


async def test_it_is_kept_where_a_live_worker_of_the_release_before_has_it(urls: Urls) -> None:
    before, after = Release(urls), Release(urls, home="bolt")
    await before.fleet.migrate()
    async with before.fleet["acme"].worker():
        await after.fleet.declare()
        async with after.fleet:
            assert await after.declared("digest") == {"acme": True, "bolt": True}

    # Once that has ended, a declaration or the next worker there retires it.
    async with after.fleet.worker(**QUICK), asyncio.timeout(60):
        while (await after.declared("digest"))["acme"]:
            await asyncio.sleep(0.1)


async def test_a_home_must_be_named(files: Make) -> None:
    release = Release(files("acme"), home=None)

    with pytest.raises(Misuse, match=r"fleet\.worker\(\) with a schedule of scope='fleet', 'digest', needs a database"):
        async with release.fleet.worker():
            pass
    with pytest.raises(Misuse, match=r"fleet\.declare\(\) with .* write Fleet\(…, home='acme'\)"):
        await release.fleet.declare()
    with pytest.raises(UnknownDatabase, match="'bolt' is no database of the fleet"):
        await Release(files("acme"), home="bolt").fleet.declare()
    with pytest.raises(UnknownDatabase, match="'bolt' is no database of the fleet"):
        async with Release(lambda: files("acme"), home="bolt").fleet.worker():
            pass


async def test_a_schedule_that_is_elsewhere_is_said_to_be(files: Make) -> None:
    release = Release(files("acme", "bolt"))
    async with release.fleet as fleet:
        await fleet.declare()
        await fleet["acme"].schedules.pause("digest")
        with pytest.raises(BadOption, match=r"'digest' has scope='fleet' and is only in .* the home of the fleet"):
            await fleet["bolt"].schedules.pause("digest")


async def test_an_app_that_leads_no_fleet_runs_it_as_any_other(tmp_path: Path) -> None:
    ran: list[int] = []
    app = Mainspring(f"sqlite:///{tmp_path}/shop.db", name="shop")

    @app.recurring(every("200ms"), scope="fleet")
    async def digest() -> None:
        ran.append(1)

    assert list(code_of(app).schedules) == ["digest"]
    async with app.worker():
        await until(lambda: ran)

    with app.testing() as kit:
        before = len(ran)
        await kit.advance("1s")
        assert len(ran) > before


async def test_an_app_with_a_database_of_its_own_leaves_it_to_the_home(tmp_path: Path, files: Make) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/own.db", name="shop")

    @app.recurring(every("1h"), scope="fleet")
    async def digest() -> None: ...

    fleet = Fleet(app, files("acme"), home="acme")
    await app.declare()
    await fleet.declare()
    async with app, fleet:
        assert await app.schedules.list() == []
        assert [each.name for each in await fleet["acme"].schedules.list()] == ["digest"]


def test_a_scope_is_one_of_two() -> None:
    app = Mainspring("fleet://", name="shop")
    with pytest.raises(BadOption, match=r"scope='flet' is not one of 'database', 'fleet'.* Did you mean 'fleet'"):
        app.recurring("0 9 * * *", scope="flet")  # type: ignore[arg-type]

    async def digest() -> None: ...

    app.recurring("0 9 * * *")(digest)
    with pytest.raises(Conflict):
        app.recurring("0 9 * * *", scope="fleet")(digest)


def test_a_scope_is_no_matter_of_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "mainspring.toml").write_text('[schedules]\ndigest = { scope = "fleet", jitter = "5s" }\n')
    monkeypatch.chdir(tmp_path)
    app = Mainspring("memory://", name="shop")

    @app.recurring("0 9 * * *")
    async def digest() -> None: ...

    declared = app._code.registry.scheduled()["digest"]

    assert declared.overrides == {"jitter": 5.0}
    assert "scope= is no matter of configuration: write it in @app.recurring(…, scope='fleet')" in caplog.text
