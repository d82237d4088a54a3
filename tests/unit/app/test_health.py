import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mainspring import Check, Health, HealthLimits, Mainspring
from mainspring.app.observe import checks as health
from mainspring.model.errors import BadOption, SchemaMissing, StorageError, StorageUnavailable
from mainspring.model.message import ALL_LEVELS, ClaimRequest
from mainspring.model.verdict import Bury, Failure, Settlement
from mainspring.model.views import Beat
from mainspring.storage.contract import Storage


@pytest.fixture
async def app() -> AsyncIterator[Mainspring]:
    app = Mainspring("memory://")

    @app.consumer("a")
    def receipts(order: Any) -> None: ...

    async with app:
        yield app


async def storage_of(app: Mainspring) -> Storage:
    return await app._connection.storage("the test")


async def beat(app: Mainspring) -> None:
    await (await storage_of(app)).upkeep.beat(Beat("w", "app", "host", 1, ("receipts",), 2, "poll"))


async def advance(app: Mainspring, by: timedelta) -> None:
    storage = await storage_of(app)
    storage.now = (await storage.ledger.tally()).now + by


def statuses(found: Health) -> dict[str, str]:
    return {check.name: check.status for check in found.checks}


async def test_a_fresh_database_is_healthy(app: Mainspring) -> None:
    found = await app.health()

    assert found.status == "healthy"
    assert found.ok
    of_work = ["backlog", "overdue", "lapsed", "dead", "workers", "groups", "claiming", "parked"]
    assert statuses(found) == dict.fromkeys(["storage", *of_work, "inbox", "schedules"], "healthy")


async def test_health_opens_by_itself() -> None:
    assert (await Mainspring("memory://").health()).status == "healthy"


async def test_groups_without_a_living_worker_are_degraded(app: Mainspring) -> None:
    await app.declare()

    assert statuses(await app.health())["workers"] == "degraded"
    await beat(app)
    assert statuses(await app.health())["workers"] == "healthy"
    await advance(app, timedelta(minutes=2))
    assert statuses(await app.health())["workers"] == "degraded"


async def test_a_group_nobody_serves_for_a_day_is_named(app: Mainspring) -> None:
    await app.declare()

    await advance(app, timedelta(hours=25))

    [groups] = [check for check in (await app.health()).checks if check.name == "groups"]
    assert groups.status == "degraded"
    assert groups.summary == "no process serves receipts: start one, or run `mainspring groups retire`"


async def test_a_paused_group_is_told_and_is_no_trouble(app: Mainspring) -> None:
    await app.declare()
    await app.groups.pause("receipts")

    [groups] = [check for check in (await app.health()).checks if check.name == "groups"]

    assert (groups.status, groups.data) == ("healthy", {"unserved": [], "paused": ["receipts"]})


async def test_a_group_of_the_code_that_is_not_declared_is_told_as_such(app: Mainspring) -> None:
    with pytest.raises(BadOption, match="'receipts' is in the code and not declared yet: run `mainspring declare"):
        await app.groups.pause("receipts")
    with pytest.raises(BadOption, match=r"there is no group 'other'\. There are: none"):
        await app.groups.pause("other")


async def claiming(app: Mainspring) -> tuple[str, str]:
    """What health says of groups that nobody claims for."""
    [check] = [check for check in (await app.health()).checks if check.name == "claiming"]
    return check.status, check.summary


async def told(app: Mainspring, worker: str, number: int, *, draining: bool = False) -> None:
    where = (worker, "app", "host", 1, ("receipts",), 0, "poll")
    storage = await storage_of(app)
    await storage.upkeep.beat(Beat(*where, start_id=worker, number=number, draining=draining))


async def test_work_that_waits_while_all_workers_of_its_group_drain_is_a_finding(app: Mainspring) -> None:
    await app.declare()
    await app.publish("a", 1)
    for worker in ("app/one", "app/two"):
        await told(app, worker, 1)
        await app.workers.drain(worker.removeprefix("app/"))

    asked = await claiming(app)
    await told(app, "app/one", 2, draining=True)
    one = await claiming(app)
    await told(app, "app/two", 2, draining=True)
    both = await claiming(app)
    await app.workers.resume("one")
    resumed = await claiming(app)

    fine = ("healthy", "every group with work is served")
    assert [asked, one, resumed] == [fine, fine, fine]
    assert both == (
        "degraded",
        "ready work is not claimed: all workers of receipts drain: see `mainspring workers list`",
    )


async def test_workers_that_drain_with_nothing_waiting_are_no_trouble(app: Mainspring) -> None:
    await app.declare()
    await told(app, "app/one", 1)
    await app.workers.drain("one")
    await told(app, "app/one", 2, draining=True)

    assert (await claiming(app))[0] == "healthy"


async def test_a_silent_worker_claims_for_nobody(app: Mainspring) -> None:
    await app.declare()
    await told(app, "app/dead", 1)
    await advance(app, timedelta(minutes=2))
    await app.publish("a", 1)
    await told(app, "app/one", 1)
    await app.workers.drain("one")
    await told(app, "app/one", 2, draining=True)

    assert (await claiming(app))[0] == "degraded"


async def test_work_that_waits_in_a_paused_group_is_a_finding(app: Mainspring) -> None:
    await app.declare()
    await beat(app)
    await app.publish("a", 1)
    before = (await claiming(app))[0]
    await app.groups.pause("receipts")

    assert before == "healthy"
    assert await claiming(app) == (
        "degraded",
        "ready work is not claimed: receipts is paused: see `mainspring groups list`",
    )


@pytest.mark.parametrize(("count", "status"), [(3, "healthy"), (4, "degraded"), (6, "unhealthy")])
async def test_a_backlog_is_measured(app: Mainspring, count: int, status: str) -> None:
    await app.declare()
    await beat(app)
    await app.publish_many([("a", number) for number in range(count)])

    found = await app.health(HealthLimits(backlog=(3, 5)))

    assert statuses(found)["backlog"] == status
    assert found.status == status


@pytest.mark.parametrize(("late", "status"), [(2, "healthy"), (3, "degraded"), (5, "unhealthy")])
async def test_only_what_is_overdue_is_counted_as_overdue(app: Mainspring, late: int, status: str) -> None:
    await app.declare()
    await app.publish_many([("a", number) for number in range(late)])
    await advance(app, timedelta(minutes=6))
    await app.publish_many([("a", number) for number in range(50)])
    await beat(app)

    [overdue] = [check for check in (await app.health(HealthLimits(overdue=(2, 4)))).checks if check.name == "overdue"]

    assert overdue.status == status
    assert overdue.data["count"] == late
    assert overdue.summary == f"{late} ready for longer than 5m"


@pytest.mark.parametrize(
    ("paused", "going", "status"), [(9, 0, "degraded"), (2, 0, "healthy"), (9, 4, "degraded"), (9, 5, "unhealthy")]
)
async def test_what_waits_in_a_paused_group_degrades_at_most_and_is_named(
    app: Mainspring, paused: int, going: int, status: str
) -> None:
    app.consumer("b", group="totals")(repr)
    await app.declare()
    await app.groups.pause("receipts")
    await app.publish_many([("a", 1)] * paused + [("b", 1)] * going)
    await advance(app, timedelta(minutes=6))

    health = await app.health(HealthLimits(overdue=(2, 4), backlog=(2, 4)))

    found = {each.name: each for each in health.checks if each.name in ("overdue", "backlog")}
    assert {name: each.status for name, each in found.items()} == dict.fromkeys(found, status)
    # Once enough is overdue to be unhealthy, no more is counted.
    for each in found.values() if status != "unhealthy" else [found["backlog"]]:
        assert f"{paused} of them paused (receipts {paused}): see `mainspring groups list`" in each.summary
        assert each.data["paused"] == {"receipts": paused}


@pytest.mark.parametrize(("late", "fresh", "counted"), [(3, 0, 3), (0, 3, 0), (1, 3, 1), (9, 0, 9), (4, 9, 1)])
async def test_counting_what_is_overdue_is_bounded(
    app: Mainspring, monkeypatch: pytest.MonkeyPatch, late: int, fresh: int, counted: int
) -> None:
    monkeypatch.setattr(health, "_PAGE", 2)
    monkeypatch.setattr(health, "_PAGES", 2)
    await app.declare()
    await app.publish_many([("a", number) for number in range(late)])
    await advance(app, timedelta(minutes=6))
    await app.publish_many([("a", number) for number in range(fresh)])

    [overdue] = [check for check in (await app.health()).checks if check.name == "overdue"]

    assert overdue.data["count"] == counted


async def test_a_lapsed_claim_is_told(app: Mainspring) -> None:
    await app.declare()
    await beat(app)
    await app.publish("a", 1)
    storage = await storage_of(app)
    await storage.mailbox.claim([ClaimRequest("receipts", 1, ALL_LEVELS)], "gone", timedelta(seconds=30))

    await advance(app, timedelta(seconds=31))

    assert statuses(await app.health())["lapsed"] == "degraded"


async def test_a_database_that_is_away_is_unhealthy_and_no_error(app: Mainspring) -> None:
    storage = await storage_of(app)

    async def away() -> timedelta:
        raise StorageUnavailable("no route to host")

    storage.ping = away  # type: ignore[method-assign]
    found = await app.health()

    assert found.status == "unhealthy"
    assert not found.ok
    assert found.checks[0].summary == "no route to host"


async def test_a_database_that_does_not_answer_is_given_up(app: Mainspring, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = await storage_of(app)

    async def silence() -> timedelta:
        await asyncio.Event().wait()
        raise AssertionError

    storage.ping = silence  # type: ignore[method-assign]
    monkeypatch.setattr(health, "_PATIENCE", 0.01)

    assert (await app.health()).checks[0].summary == "the database did not answer within 0 s"


async def test_a_missing_schema_is_unhealthy_and_names_the_command(app: Mainspring) -> None:
    storage = await storage_of(app)

    async def missing() -> None:
        raise SchemaMissing(0, 1)

    storage.schema.check = missing  # type: ignore[method-assign]

    [check] = (await app.health()).checks

    assert check.status == "unhealthy"
    assert "run `mainspring migrate --app MODULE:APP`" in check.summary


async def test_a_file_that_is_no_database_is_unhealthy_and_no_error(tmp_path: Path) -> None:
    (tmp_path / "shop.db").write_bytes(b"this is no database" * 100)

    found = await Mainspring(f"sqlite:///{tmp_path}/shop.db").health()

    assert found.status == "unhealthy"
    assert [check.name for check in found.checks] == ["storage"]


async def test_a_worker_of_another_app_serves_nothing_of_this_one(app: Mainspring) -> None:
    await app.declare()
    await (await storage_of(app)).upkeep.beat(Beat("other/w", "other", "host", 1, ("receipts",), 0, "poll"))
    await app.publish("a", 1)

    found = await app.health()

    told = {check.name: check for check in found.checks}
    assert told["workers"].status == told["claiming"].status == "degraded"
    assert told["workers"].summary == "1 alive, none of app: start one, as in `mainspring worker MODULE:APP`"
    assert told["claiming"].data["unserved"] == ["receipts"]
    await beat(app)
    assert statuses(await app.health()) | {"workers": "healthy", "claiming": "healthy"} == statuses(await app.health())


async def test_a_queue_needs_no_worker(app: Mainspring) -> None:
    queue = app.queue("audit", "audited")
    await queue.declare()
    await app.publish("audited", 1)

    assert statuses(await app.health())["workers"] == "healthy"


async def test_a_queue_is_served_while_its_process_has_it_open(app: Mainspring) -> None:
    queue = app.queue("audit", "audited")
    await queue.declare()
    await app.publish("audited", 1)

    def told(found: Health) -> dict[str, tuple[str, str]]:
        return {check.name: (check.status, check.summary) for check in found.checks if check.name in wanted}

    wanted = ("groups", "claiming")
    before = told(await app.health())
    await queue.claim(1, hold="1m")
    await app.publish("audited", 2)
    during = told(await app.health())
    await advance(app, timedelta(minutes=23))
    after = told(await app.health())

    reason = "no live process serves audit: start one, or see `mainspring workers list`"
    unclaimed = ("degraded", f"ready work is not claimed: {reason}")
    assert before == after == {"groups": ("healthy", "0 of 1 served, 0 paused"), "claiming": unclaimed}
    assert during == {
        "groups": ("healthy", "all served, 0 paused"),
        "claiming": ("healthy", "every group with work is served"),
    }


async def test_messages_parked_for_an_hour_are_degraded_with_their_topics(app: Mainspring) -> None:
    await app.declare()
    await beat(app)
    await app.publish_many([("a", 1), ("ordes.placed", 1), ("ordes.placed", 2)])

    def parked(found: Health) -> Check:
        return next(check for check in found.checks if check.name == "parked")

    new = parked(await app.health())
    await advance(app, timedelta(minutes=61))
    old = parked(await app.health())
    allowed = parked(await app.health(HealthLimits(parked=2)))
    patient = parked(await app.health(HealthLimits(parked_after=timedelta(hours=2))))

    assert (new.status, new.summary) == ("healthy", "0 parked for longer than 1h")
    assert old.status == "degraded"
    assert old.summary == (
        "2 parked for longer than 1h, since no group subscribes (ordes.placed 2): see `mainspring messages list "
        "--state parked`"
    )
    assert old.data["topics"] == {"ordes.placed": 2}
    assert allowed.status == patient.status == "healthy"


async def bury(app: Mainspring, count: int) -> None:
    storage = await storage_of(app)
    await app.publish_many([("a", number) for number in range(count)])
    held = await storage.mailbox.claim([ClaimRequest("receipts", count, ALL_LEVELS)], "w", timedelta(seconds=30))
    failure = Failure("error", "boom", None)
    await storage.mailbox.settle([Settlement(each.claim, Bury(failure), "failures") for each in held], "w")


async def test_new_dead_letters_are_told_for_an_hour_and_all_of_them_for_ever(app: Mainspring) -> None:
    await app.declare()
    await beat(app)
    await bury(app, 3)

    def dead(found: Health) -> Check:
        return next(check for check in found.checks if check.name == "dead")

    new = dead(await app.health())
    many = dead(await app.health(HealthLimits(new_dead=(5, None), dead=(1, 2))))
    few = dead(await app.health(HealthLimits(new_dead=(3, None))))
    await advance(app, timedelta(minutes=61))
    old = dead(await app.health())

    assert (new.status, new.summary) == (
        "degraded",
        "3 new in the last hour (receipts 3), 3 in all: see `mainspring dead causes`",
    )
    assert (many.status, few.status) == ("unhealthy", "healthy")
    assert (old.status, old.summary) == ("healthy", "0 new in the last hour, 3 in all")
    assert new.data["groups"] == {"receipts": 3}


async def test_each_check_tells_how_long_it_took(app: Mainspring) -> None:
    found = await app.health()

    assert found.seconds is not None
    assert all(check.seconds is not None and 0 <= check.seconds <= found.seconds for check in found.checks)


async def test_what_was_found_before_the_database_went_away_is_kept(app: Mainspring) -> None:
    storage = await storage_of(app)

    async def away(*_: object) -> Any:
        raise StorageUnavailable("no route to host")

    storage.inbox.browse = away  # type: ignore[assignment, method-assign]
    found = await app.health()

    assert statuses(found)["backlog"] == "healthy"
    assert [(check.status, check.summary) for check in found.checks if check.name == "storage"] == [
        ("unhealthy", "no route to host")
    ]


async def test_a_reading_that_the_database_rejects_spoils_no_other(app: Mainspring) -> None:
    storage = await storage_of(app)

    async def rejected(*_: object) -> Any:
        raise StorageError("column status does not exist")

    storage.inbox.browse = rejected  # type: ignore[assignment, method-assign]
    told = {check.name: check for check in (await app.health()).checks}

    assert (told["inbox"].status, told["inbox"].summary) == ("unhealthy", "column status does not exist")
    assert told["storage"].status == told["schedules"].status == "healthy"
