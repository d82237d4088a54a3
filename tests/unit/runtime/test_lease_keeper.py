"""The keeper of leases, turned by hand: what it renews and when, and whom it tells."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from mainspring.model.errors import StorageUnavailable
from mainspring.model.lease import Granted, Hold, LeaseView, Renewal, Renewed
from mainspring.runtime.lease_keeper import RAN_OUT, TAKEN, Holding, LeaseKeeper, Return
from mainspring.runtime.reports import RateLimitedLog
from mainspring.runtime.service import FOREVER
from mainspring.storage.contract import Leases
from mainspring.storage.memory import MemoryStorage
from mainspring.timing.clock import HandClock

SECOND = timedelta(seconds=1)
TTL = 30 * SECOND


class Watched:
    """Makes leases count what they are asked, and fail or take their time when told to."""

    def __init__(self, leases: Leases, clock: HandClock) -> None:
        self._clock = clock
        self._renew, self._release = leases.renew, leases.release
        vars(leases).update(renew=self.renew, release=self.release)
        self.takes = timedelta()
        self.renewals: list[int] = []
        self.away = False
        self.busy = False

    async def renew(self, renewals: Sequence[Renewal]) -> Renewed:
        if self.away:
            raise StorageUnavailable("away")
        self.renewals.append(len(renewals))
        if self.busy:
            return Renewed(busy=frozenset(each.hold for each in renewals))
        answer = await self._renew(renewals)
        self._clock.advance(self.takes)
        return answer

    async def release(self, name: str, epoch: int, holder: str) -> bool:
        if self.away:
            raise StorageUnavailable("away")
        return await self._release(name, epoch, holder)


class Kept:
    """A keeper without its thread, over memory, by a clock that is turned by hand."""

    def __init__(self) -> None:
        self.clock = HandClock(datetime(2030, 1, 1, 12, tzinfo=UTC))
        self.storage = MemoryStorage(self.clock)
        self.keeper = LeaseKeeper(self.storage, self.clock, RateLimitedLog(self.clock))
        self.keeper.start = lambda: None  # type: ignore[method-assign]
        self.leases = self.keeper._storage.leases
        self.watched = Watched(self.leases, self.clock)
        self.told: list[str] = []

    async def hold(self, name: str = "reports", ttl: timedelta = TTL) -> Holding:
        granted = await self.storage.leases.acquire(name, f"holder of {name}", ttl)
        assert granted is not None
        holding = Holding(Hold(name, granted.epoch, f"holder of {name}"), ttl, self.clock.elapsed(), self.clock)
        holding.on_lost = lambda: self.told.append(name)
        self.keeper.keep(holding)
        return holding


async def test_nothing_is_asked_before_it_is_time() -> None:
    kept = Kept()
    idle = await kept.keeper.turn()
    holding = await kept.hold()

    pause = await kept.keeper.turn()
    kept.clock.advance((holding.renew_at - 0.25) * SECOND)
    nearly = await kept.keeper.turn()

    assert (idle, pause) == (FOREVER, 1.0)
    assert nearly == pytest.approx(0.25, abs=0.001)
    assert kept.watched.renewals == []


async def test_whatever_is_due_is_renewed_in_one_trip() -> None:
    kept = Kept()
    holdings = [await kept.hold(f"lease {number}") for number in range(5)]
    later = await kept.hold("later", 300 * SECOND)

    kept.clock.advance(18 * SECOND)
    await kept.keeper.turn()

    assert kept.watched.renewals == [5]
    assert [each.until for each in holdings] == [48.0] * 5
    assert later.until == 300.0
    view = await kept.storage.leases.find("lease 3")
    assert view is not None
    assert view.expires_at == kept.clock.now() + TTL


async def test_a_lease_that_is_always_renewed_is_never_lost() -> None:
    kept = Kept()
    holding = await kept.hold()

    for _ in range(100):
        kept.clock.advance(await kept.keeper.turn() * SECOND)

    assert holding.over is None
    assert kept.told == []
    assert len(kept.watched.renewals) in range(4, 8)


async def test_a_renewal_counts_from_when_it_was_sent_however_long_the_reply_takes() -> None:
    kept = Kept()
    holding = await kept.hold()
    kept.watched.takes = 4 * SECOND

    kept.clock.advance(18 * SECOND)
    await kept.keeper.turn()
    view = await kept.storage.leases.find("reports")
    kept.clock.advance(25.9 * SECOND)
    in_time = holding.over
    kept.clock.advance(0.1 * SECOND)

    assert view is not None
    assert view.expires_at == kept.clock.now()
    assert (in_time, holding.over) == (None, RAN_OUT)


async def test_whoever_lost_it_is_told_and_the_others_are_renewed() -> None:
    kept = Kept()
    stays, goes = await kept.hold("stays"), await kept.hold("goes")
    await kept.storage.leases.revoke("goes", "ann", "")

    kept.clock.advance(18 * SECOND)
    await kept.keeper.turn()
    await kept.keeper.turn()

    assert (stays.over, goes.over) == (None, TAKEN)
    assert kept.told == ["goes"]
    assert kept.watched.renewals == [2]


async def test_a_lease_that_ran_out_is_not_asked_for_again() -> None:
    kept = Kept()
    holding = await kept.hold()

    kept.clock.advance(TTL)
    pause = await kept.keeper.turn()

    assert (holding.over, kept.told, pause) == (RAN_OUT, ["reports"], FOREVER)
    assert kept.watched.renewals == []


async def test_while_the_database_is_away_it_is_kept_until_its_time_is_over() -> None:
    kept = Kept()
    holding = await kept.hold()
    kept.watched.away = True

    kept.clock.advance(18 * SECOND)
    with pytest.raises(StorageUnavailable):
        await kept.keeper.turn()
    away = holding.over
    kept.clock.advance(11.9 * SECOND)
    with pytest.raises(StorageUnavailable):
        await kept.keeper.turn()
    in_time = holding.over
    kept.clock.advance(0.1 * SECOND)
    await kept.keeper.turn()

    assert (away, in_time, holding.over) == (None, None, RAN_OUT)
    assert kept.told == ["reports"]


async def test_a_database_that_comes_back_in_time_saves_it() -> None:
    kept = Kept()
    holding = await kept.hold()
    kept.watched.away = True
    kept.clock.advance(29 * SECOND)
    with pytest.raises(StorageUnavailable):
        await kept.keeper.turn()

    kept.watched.away = False
    await kept.keeper.turn()

    assert (holding.over, holding.until) == (None, 59.0)


async def test_a_lease_that_somebody_has_locked_is_asked_for_again_soon() -> None:
    kept = Kept()
    holding = await kept.hold()
    kept.watched.busy = True
    kept.clock.advance(18 * SECOND)

    pause = await kept.keeper.turn()
    kept.watched.busy = False
    kept.clock.advance(pause * SECOND)
    await kept.keeper.turn()

    assert pause == pytest.approx(0.1, abs=0.001)
    assert holding.until == pytest.approx(48.1, abs=0.001)


async def test_what_is_given_back_is_released_when_the_database_is_there_again() -> None:
    kept = Kept()
    holding = await kept.hold()
    kept.keeper.drop(holding)
    kept.watched.away = True
    kept.keeper.give_back(Return("reports", "holder of reports", holding.until, holding.hold.epoch))
    with pytest.raises(StorageUnavailable):
        await kept.keeper.turn()

    kept.watched.away = False
    await kept.keeper.turn()

    assert await _is_free(kept)


async def test_what_may_have_been_acquired_is_found_and_released() -> None:
    kept = Kept()
    await kept.storage.leases.acquire("reports", "unheard", TTL)

    kept.keeper.give_back(Return("reports", "unheard", 30.0))
    await kept.keeper.turn()

    assert await _is_free(kept)


async def test_what_is_acquired_after_who_asked_has_gone_is_found_and_released() -> None:
    kept = Kept()
    kept.keeper.give_back(Return("reports", "unheard", 30.0))
    first = await kept.keeper.turn()

    await kept.storage.leases.acquire("reports", "unheard", TTL)  # the request was still on its way
    kept.clock.advance(first * SECOND)
    then = await kept.keeper.turn()

    assert first == pytest.approx(0.1, abs=0.001)
    assert then == FOREVER
    assert await _is_free(kept)


async def test_what_was_never_acquired_is_looked_for_less_and_less_until_its_time_is_over() -> None:
    kept = Kept()
    kept.keeper.give_back(Return("reports", "unheard", 30.0))

    looks, find = 0, kept.leases.find

    async def counted(name: str) -> LeaseView | None:
        nonlocal looks
        looks += 1
        return await find(name)

    kept.leases.find = counted  # type: ignore[method-assign]
    while (pause := await kept.keeper.turn()) != FOREVER:
        kept.clock.advance(pause * SECOND)

    assert looks == 9  # at 0, 0.1, 0.3, 0.7, … 25.5 seconds
    assert kept.clock.elapsed() >= 30


async def test_what_somebody_else_has_is_left_alone() -> None:
    kept = Kept()
    granted = await kept.storage.leases.acquire("reports", "other", TTL)

    kept.keeper.give_back(Return("reports", "unheard", 30.0))
    await kept.keeper.turn()

    assert isinstance(granted, Granted)
    assert await kept.storage.leases.confirm("reports", granted.epoch, "other")


async def test_what_has_run_out_meanwhile_needs_no_giving_back() -> None:
    kept = Kept()
    kept.watched.away = True
    kept.keeper.give_back(Return("reports", "one", 30.0, epoch=1))

    kept.clock.advance(TTL)

    assert await kept.keeper.turn() == FOREVER


async def _is_free(kept: Kept) -> bool:
    view = await kept.storage.leases.find("reports")
    return view is not None and view.state == "free"
