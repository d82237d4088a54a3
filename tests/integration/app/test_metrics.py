"""`app.metrics`: what Prometheus reads is what really happened, and one process tells of the database."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mainspring import Mainspring, Snooze, errors, intervals
from mainspring.model.measures import BOUNDS
from mainspring.telemetry.metrics import CATALOGUE
from tests.integration.app.measuring import Make, maker, of, scraped, storage_of, until, until_measured

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
OF_DATABASE = {each.name for each in CATALOGUE if each.whose == "database"}


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def make(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, postgres_schema: str) -> Make:
    return maker(request.param, tmp_path, postgres_url, postgres_schema)


@pytest.fixture(params=["sqlite", "postgresql"])
def share(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, postgres_schema: str) -> Make:
    return maker(request.param, tmp_path, postgres_url, postgres_schema)


def names(text: str) -> set[str]:
    """Every metric there is, also without a sample, as the catalogue writes it."""
    return {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in text_string_to_metric_families(text)
    }


async def test_the_numbers_are_those_of_what_happened(make: Make) -> None:
    app = make()

    @app.consumer("orders.placed")
    async def mailer(number: int) -> None: ...

    @app.consumer("orders.placed", retry=intervals("1ms"))
    async def auditor(number: int) -> object:
        if number == 0:
            return Snooze("1h")
        raise LookupError(number)

    @app.recurring("0 3 * * *", timezone="UTC")
    async def nightly() -> None: ...

    async with app.worker(), app.leases.hold("reports"):
        await app.publish_many([("orders.placed", number) for number in range(3)])
        await app.publish("nobody.listens", {})
        await until_measured(app, 8)
        await app.groups.pause("auditor")
        numbers = scraped(await app.metrics())

    assert of(numbers, "mainspring_published_total") == {"orders.placed": 3, "nobody.listens": 1}
    assert of(numbers, "mainspring_settled_total") == {
        "mailer,done": 3,
        "mailer,failed": 0,
        "mailer,dead": 0,
        "mailer,snoozed": 0,
        "mailer,cancelled": 0,
        "auditor,done": 0,
        "auditor,failed": 2,
        "auditor,dead": 2,
        "auditor,snoozed": 1,
        "auditor,cancelled": 0,
        **{f"nightly,{status}": 0 for status in ("done", "failed", "dead", "snoozed", "cancelled")},
    }
    assert of(numbers, "mainspring_wait_seconds_count") == {"mailer": 3, "auditor": 5, "nightly": 0}
    assert of(numbers, "mainspring_run_seconds_count") == {"mailer": 3, "auditor": 5, "nightly": 0}
    assert of(numbers, "mainspring_deliveries") == {
        **{f"mailer,{state}": 0 for state in ("scheduled", "ready", "running", "lapsed", "dead")},
        **{f"nightly,{state}": 0 for state in ("scheduled", "ready", "running", "lapsed", "dead")},
        **{f"auditor,{state}": 0 for state in ("ready", "running", "lapsed")},
        "auditor,scheduled": 1,
        "auditor,dead": 2,
    }
    assert of(numbers, "mainspring_parked") == {"": 1}
    assert of(numbers, "mainspring_oldest_ready_age_seconds") == {"auditor": 0, "mailer": 0, "nightly": 0}
    assert of(numbers, "mainspring_group_paused") == {"auditor": 1, "mailer": 0, "nightly": 0}
    assert of(numbers, "mainspring_workers") == {"alive": 1, "silent": 0}
    assert of(numbers, "mainspring_schedule_lateness_seconds") == {"nightly": 0}
    for count in ("fired", "missed", "skipped"):
        assert of(numbers, f"mainspring_schedule_{count}_total") == {"nightly": 0}
    # Without the one by which it is this process that tells of all this.
    assert of(numbers, "mainspring_leases") == {"held": 1, "expired": 0}
    assert of(numbers, "mainspring_leases_held") == {"": 1}
    assert of(numbers, "mainspring_in_hand") == {"": 0}
    assert of(numbers, "mainspring_database_up") == {"": 1}
    assert sum(of(numbers, "mainspring_bell").values()) == 1
    assert of(numbers, "mainspring_loop_failures_total") == dict.fromkeys(
        (
            "fetcher",
            "settler",
            "keeper",
            "scheduler",
            "reporting",
            "subscribing",
            "rerouting",
            "pruning",
            "recounting",
            "retiring",
            "namesakes",
        ),
        0,
    )
    assert of(numbers, "mainspring_loop_turns_total")["settler"] > 0


async def test_the_buckets_of_a_histogram_are_cumulative() -> None:
    app = Mainspring("memory://")

    @app.consumer("work")
    async def work(number: int) -> None: ...

    async with app:
        storage = await storage_of(app)
        storage.now = NOON
        await app.declare()
        await app.publish("work", 1)
        storage.now = NOON + timedelta(seconds=21)
        await app.publish("work", 2)
        async with app.worker():
            await until_measured(app, 2)
            text = await app.metrics()

    (family,) = [each for each in text_string_to_metric_families(text) if each.name == "mainspring_wait_seconds"]
    buckets = {each.labels["le"]: each.value for each in family.samples if each.name.endswith("_bucket")}
    sums = [each.value for each in family.samples if each.name.endswith("_sum")]
    assert family.type == "histogram"
    assert list(buckets) == [*map(str, BOUNDS), "+Inf"]
    assert list(buckets.values()) == sorted(buckets.values())
    # One of the two had waited for 21 seconds, and a little more by our own clock.
    assert (buckets["20.0"], buckets["+Inf"]) == (1, 2)
    assert len(sums) == 1
    assert sums[0] >= 21


async def test_every_metric_is_in_the_catalogue_and_none_is_missing(make: Make) -> None:
    app = make()

    async with app:
        text = await app.metrics()

    told = {family.name: family for family in text_string_to_metric_families(text)}
    of_apps = [each for each in CATALOGUE if each.whose != "fleet"]
    assert names(text) == {each.name for each in of_apps}
    for metric in of_apps:
        family = told[metric.name.removesuffix("_total") if metric.kind == "counter" else metric.name]
        assert (family.type, family.documentation) == (metric.kind, metric.help)
        assert metric.name.endswith("_total") == (metric.kind == "counter")


async def test_one_of_two_processes_tells_of_the_database_until_its_time_is_over(share: Make) -> None:
    first, second = share(), share()

    async with first, second:
        for app in (first, second):
            (await storage_of(app)).now = NOON
        told = [OF_DATABASE & names(await app.metrics()) for app in (first, second, first, second)]
        for app in (first, second):
            (await storage_of(app)).now = NOON + timedelta(seconds=59)
        renewed = OF_DATABASE & names(await first.metrics())
        for app in (first, second):
            (await storage_of(app)).now = NOON + timedelta(seconds=118)
        not_yet = OF_DATABASE & names(await second.metrics())
        for app in (first, second):
            (await storage_of(app)).now = NOON + timedelta(seconds=119)
        taken_over = [OF_DATABASE & names(await app.metrics()) for app in (second, first)]

    assert told == [OF_DATABASE, set(), OF_DATABASE, set()]
    assert renewed == OF_DATABASE
    assert not_yet == set()
    assert taken_over == [OF_DATABASE, set()]


async def test_a_process_that_ends_leaves_it_to_the_next_at_once(share: Make) -> None:
    first, second = share(), share()

    async with second:
        async with first:
            told = [OF_DATABASE & names(await app.metrics()) for app in (first, second)]
        after = OF_DATABASE & names(await second.metrics())

    assert told == [OF_DATABASE, set()]
    assert after == OF_DATABASE


async def test_namespaces_tell_apart_of_their_own(share: Make) -> None:
    staging, live = share(namespace="staging"), share(namespace="live")
    for app in (staging, live):

        @app.consumer("work")
        async def work(number: int) -> None: ...

    async with staging, live:
        for app, count in ((staging, 1), (live, 2)):
            await app.declare()
            await app.publish_many([("work", number) for number in range(count)])
            await app.publish_many([("nobody.listens", number) for number in range(count)])
        numbers = [scraped(await app.metrics()) for app in (staging, live)]

    for count, each in enumerate(numbers, 1):
        assert of(each, "mainspring_published_total") == {"work": count, "nobody.listens": count}
        assert of(each, "mainspring_deliveries")["work,ready"] == count
        assert of(each, "mainspring_parked") == {"": count}
        assert of(each, "mainspring_leases") == {"held": 0, "expired": 0}


async def test_how_long_the_oldest_waits_and_how_late_a_schedule_is(share: Make) -> None:
    app = share()

    @app.consumer("work")
    async def work(number: int) -> None: ...

    @app.recurring("0 3 * * *", timezone="UTC")
    async def nightly() -> None: ...

    async with app:
        storage = await storage_of(app)
        storage.now = NOON
        await app.declare()
        await app.publish("work", 1)
        storage.now = NOON + timedelta(hours=15, minutes=2)
        numbers = scraped(await app.metrics())
        await app.schedules.pause("nightly")
        paused = scraped(await app.metrics())

    assert of(numbers, "mainspring_oldest_ready_age_seconds")["work"] == 15 * 3600 + 120
    assert of(numbers, "mainspring_schedule_lateness_seconds") == {"nightly": 120}
    assert of(paused, "mainspring_schedule_lateness_seconds") == {"nightly": 0}


def test_what_is_published_in_a_transaction_is_counted_when_it_is_handed_over(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    app = Mainspring(f"sqlite:///{path}")
    app.sync.migrate()

    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("BEGIN IMMEDIATE")
        app.sync.publish("work", 1, tx=connection)
        app.sync.publish_many([("work", 2), ("other", 3)], tx=connection)
    numbers = scraped(app.sync.metrics())
    app.sync.close()

    assert of(numbers, "mainspring_published_total") == {"work": 2, "other": 1}


async def test_what_was_there_already_is_not_counted_again() -> None:
    app = Mainspring("memory://")

    async with app:
        receipt = await app.publish("work", 1)
        await app.publish("work", 1, message_id=receipt.id)
        numbers = scraped(await app.metrics())

    assert of(numbers, "mainspring_published_total") == {"work": 1}


def test_what_was_there_already_is_not_counted_again_in_a_transaction_either(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    app = Mainspring(f"sqlite:///{path}")
    first = app.sync.publish("work", 1)

    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("BEGIN IMMEDIATE")
        again = app.sync.publish("work", 1, message_id=first.id, tx=connection)
        app.sync.publish_many([("work", 2)], tx=connection)
    numbers = scraped(app.sync.metrics())
    app.sync.close()

    assert again.status == "duplicate"
    assert of(numbers, "mainspring_published_total") == {"work": 2}


async def test_leases_are_counted_beyond_a_page() -> None:
    app = Mainspring("memory://", namespace="live")

    async with app:
        storage = await storage_of(app)
        storage.now = NOON
        for number in range(1_500):
            await storage.leases.acquire(str(number), "me", timedelta(hours=1))
        await storage.leases.acquire("short", "me", timedelta(seconds=1))
        storage.now = NOON + timedelta(minutes=1)
        numbers = scraped(await app.metrics())

    assert of(numbers, "mainspring_leases") == {"held": 1_500, "expired": 1}


async def test_topics_without_end_do_not_become_metrics_without_end() -> None:
    app = Mainspring("memory://", namespace="live")

    async with app:
        await app.publish_many([(f"orders.n{number}", {}) for number in range(1_003)])
        published = of(scraped(await app.metrics()), "mainspring_published_total")

    assert len(published) == 1_001
    assert (published["orders.n0"], published["(other)"]) == (1, 3)


async def test_a_process_whose_database_is_away_ends_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Mainspring("memory://")

    async def away(*_: object) -> bool:
        raise errors.StorageUnavailable("the server is away")

    async with app:
        storage = await storage_of(app)
        told = OF_DATABASE & names(await app.metrics())
        monkeypatch.setattr(storage.leases, "release", away)

    assert told == OF_DATABASE


async def test_a_breaker_that_is_open_is_told() -> None:
    from mainspring import breaker

    app = Mainspring("memory://")

    @app.consumer("work", breaker=breaker(failures=1, pause="1h"), retry=intervals("1h"))
    async def work(number: int) -> None:
        raise LookupError(number)

    async def tripped() -> bool:
        return of(scraped(await app.metrics()), "mainspring_breaker_open") == {"work": 1}

    async with app.worker():
        before = of(scraped(await app.metrics()), "mainspring_breaker_open")
        await app.publish("work", 1)
        await until(tripped)

    assert before == {}


async def test_without_the_database_a_process_tells_of_itself() -> None:
    app = Mainspring("postgresql://127.0.0.1:1/nowhere")

    async with app:
        text = await app.metrics()

    numbers = scraped(text)
    assert of(numbers, "mainspring_database_up") == {"": 0}
    assert OF_DATABASE & names(text) == set()
    assert of(numbers, "mainspring_in_hand") == {"": 0}


async def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)

    async with Mainspring("memory://") as app:
        with pytest.raises(errors.MissingExtra, match=r"app\.metrics\(\) needs .* 'mainspring\[prometheus\]'"):
            await app.metrics()
        assert list(await app.leases.list()) == []  # else no other process reports for a minute


def test_a_test_may_ask_for_metrics_without_a_loop() -> None:
    app = Mainspring("memory://")

    @app.consumer("work")
    async def work(number: int) -> None: ...

    with app.testing():
        app.sync.publish("work", 1)
        numbers = scraped(app.sync.metrics())
        view = app.sync.stats.measures()

    assert of(numbers, "mainspring_deliveries")["work,ready"] == 1
    assert view.total.ended == 0


def test_who_asks_for_no_metrics_imports_nothing_for_them(tmp_path: Path) -> None:
    script = tmp_path / "plain.py"
    script.write_text(
        "import asyncio, sys\n"
        "from mainspring import Mainspring\n"
        "app = Mainspring('memory://')\n"
        "@app.consumer('work')\n"
        "async def work(number: int) -> None: ...\n"
        "async def main():\n"
        "    async with app.worker():\n"
        "        await app.publish('work', 1)\n"
        "        await app.stats.measures()\n"
        "asyncio.run(main())\n"
        "print([name for name in sys.modules if name.startswith(('prometheus_client', 'opentelemetry'))])\n"
    )

    done = subprocess.run([sys.executable, script], check=True, capture_output=True, text=True)

    assert done.stdout.strip() == "[]"
