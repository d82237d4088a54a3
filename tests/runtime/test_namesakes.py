"""Workers of another application under the name of this one: logged once, and not while a release replaces another."""

import logging
from datetime import UTC, datetime, timedelta

import pytest

from mainspring.model.views import Beat, Declaration
from mainspring.model.worker import SILENT_AFTER, Declarer, roster_name
from mainspring.runtime.janitor import Heartbeat, Namesakes
from mainspring.runtime.reports import RateLimitedLog
from mainspring.runtime.settings import WorkerSettings
from mainspring.timing.clock import SystemClock
from tests.runtime.stage import Stage

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class Names:
    """A worker of the app "shop" whose code has the group "mail", and others that report themselves."""

    def __init__(self, stage: Stage, caplog: pytest.LogCaptureFixture, version: int) -> None:
        caplog.set_level(logging.WARNING, "mainspring.worker")
        self.storage = stage.storage
        self.storage.now = NOON
        self._log = caplog
        settings = WorkerSettings(app="shop", name="own", code=frozenset({"mail"}))
        heartbeat = Heartbeat(settings, "a" * 16, ("mail",), None, None, None, None, None)  # type: ignore[arg-type]
        clock = SystemClock()
        self.loop = Namesakes(self.storage.ledger, heartbeat, version, RateLimitedLog(clock), clock)
        self.version = version

    async def there(self, name: str, group: str, *, version: int = 0, app: str = "shop") -> None:
        """Let a worker report itself, as it does every few seconds."""
        worker, start = roster_name(app, name), name.ljust(16, "0")
        await self.storage.upkeep.beat(Beat(worker, app, "host", 1, (group,), 0, "poll", start_id=start))
        await self.storage.upkeep.declare([Declaration(f"{app}.{group}", app, (), "x")], Declarer(worker, start))
        await self.storage.timetable.declare(app, version, (), Declarer(worker, start), ())

    async def after(self, passed: timedelta) -> list[str]:
        """What is logged when the roster is read then."""
        assert self.storage.now is not None
        self.storage.now += passed
        await self.there("own", "mail", version=self.version)
        self._log.clear()
        await self.loop.turn()
        return [each.getMessage() for each in self._log.records]


SAID = (
    "live workers of 'shop' have none of the groups of this code: {}: "
    "if that is another application, give one of the two another name"
)


@pytest.mark.parametrize("version", [0, 7])
async def test_another_application_is_logged_once_for_each_set_of_groups(
    stage: Stage, caplog: pytest.LogCaptureFixture, version: int
) -> None:
    names = Names(stage, caplog, version)
    await names.there("own", "mail", version=version)

    async def other(name: str, group: str) -> list[str]:
        await names.there(name, group, version=version)
        await names.after(SILENT_AFTER if version == 0 else timedelta())
        await names.there(name, group, version=version)
        return [*caplog.messages, *await names.after(timedelta())]

    assert await other("one", "billing") == [SAID.format("one with billing")]
    assert await other("two", "billing") == []
    assert await other("three", "stock") == [SAID.format("three with stock")]


async def test_without_versions_a_worker_that_has_just_come_may_be_the_next_release(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    names = Names(stage, caplog, 0)
    await names.there("own", "mail")
    await names.after(60 * MINUTE)
    await names.there("next", "mail.v2")

    assert await names.after(timedelta()) == []
    for _ in range(4):
        await names.there("next", "mail.v2")
        assert await names.after(MINUTE) == []
    await names.there("next", "mail.v2")
    assert await names.after(MINUTE) == [SAID.format("next with mail.v2")]


@pytest.mark.parametrize(
    ("version", "group", "app"), [(8, "mail.v2", "shop"), (7, "mail", "shop"), (7, "billing", "x")]
)
async def test_another_release_the_same_groups_and_another_name_are_no_reason(
    stage: Stage, caplog: pytest.LogCaptureFixture, version: int, group: str, app: str
) -> None:
    names = Names(stage, caplog, 7)
    await names.there("own", "mail", version=7)
    await names.there("other", group, version=version, app=app)

    assert await names.after(timedelta()) == []
