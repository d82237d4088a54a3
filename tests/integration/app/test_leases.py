"""`app.leases`: held for a block, renewed meanwhile, lost, released, and waited for."""

import asyncio
import contextlib
import logging
import re
import sqlite3
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mainspring import Lease, Mainspring, errors
from mainspring.timing.clock import HandClock
from tests.integration.app.leasing import SECOND, Unreliable, counting, opened, until


@pytest.mark.parametrize("name", ["", "a/b", "a\nb", "x" * 201, 7])
async def test_a_name_that_cannot_be_meant_is_refused(name: str) -> None:
    async with opened() as hands:
        with pytest.raises(errors.BadOption, match="lease"):
            hands.app.leases.hold(name)
        with pytest.raises(errors.BadOption, match="lease"):
            await hands.app.leases.acquire(name)


@pytest.mark.parametrize("ttl", ["0s", "999ms", "-1s", 30, "soon"])
async def test_a_time_that_cannot_be_meant_is_refused(ttl: str) -> None:
    async with opened() as hands:
        with pytest.raises(errors.BadOption, match="ttl="):
            hands.app.leases.hold("reports", ttl)


async def test_a_wait_that_cannot_be_meant_is_refused() -> None:
    async with opened() as hands:
        with pytest.raises(errors.BadOption, match="wait="):
            hands.app.leases.hold("reports", wait="soon")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"renew_after": 1.0}, "renew_after=1.0 is the share of the ttl .* from 0.1 to 0.9"),
        ({"renew_after": 0.05}, "renew_after=0.05"),
        ({"renew_after": "60%"}, "renew_after='60%'"),
        ({"holder": ""}, "holder must be 1 to 200 characters"),
        ({"holder": 7}, "holder=7 must be text"),
    ],
)
async def test_a_holder_or_a_share_that_cannot_be_meant_is_refused(options: Any, said: str) -> None:
    async with opened() as hands:
        with pytest.raises(errors.BadOption, match=said):
            hands.app.leases.hold("reports", **options)
        with pytest.raises(errors.BadOption, match=said):
            await hands.app.leases.acquire("reports", **options)


async def test_others_are_told_the_name_of_the_holder() -> None:
    async with opened() as hands, hands.app.leases.hold("reports", holder="nightly@eu-1"):
        view = await hands.view()
        with pytest.raises(errors.LeaseHeld, match="nightly@eu-1"):
            async with hands.app.leases.hold("reports", holder="nightly@eu-1"):
                pass

    assert view.holder is not None
    assert re.fullmatch(r"nightly@eu-1:[0-9a-f]{16}", view.holder)


async def test_an_app_that_is_not_open_says_so() -> None:
    app = Mainspring("memory://")

    with pytest.raises(errors.NotOpen, match=r"app\.leases\.acquire\(\)"):
        await app.leases.acquire("reports")
    with pytest.raises(errors.NotOpen, match=r"app\.leases\.hold\(\)"):
        async with app.leases.hold("reports"):
            pass


async def test_a_lease_is_held_for_the_length_of_a_block() -> None:
    async with opened() as hands:
        async with hands.app.leases.hold("reports", "30s") as lease:
            inside = await hands.view()
            refused = await hands.app.leases.acquire("reports")
        after = await hands.view()

    assert (lease.name, inside.state, inside.epoch) == ("reports", "held", lease.epoch)
    assert refused is None
    assert (after.state, lease.lost) == ("free", True)


async def test_a_lease_is_released_when_the_block_raises() -> None:
    async with opened() as hands:
        with pytest.raises(ZeroDivisionError):
            async with hands.app.leases.hold("reports"):
                raise ZeroDivisionError

        assert (await hands.view()).state == "free"


async def test_the_same_process_cannot_have_it_twice() -> None:
    async with opened() as hands, hands.app.leases.hold("reports") as lease:
        holder = (await hands.view()).holder

        with pytest.raises(errors.LeaseHeld) as caught:
            async with hands.app.leases.hold("reports"):
                pass

        assert (caught.value.name, caught.value.holder) == ("reports", holder)
        assert f"held by {holder}" in str(caught.value)
        lease.raise_if_lost()


async def test_one_guard_is_for_one_block_at_a_time() -> None:
    async with opened() as hands:
        guard = hands.app.leases.hold("reports", wait=True)
        async with guard as first:
            with pytest.raises(
                errors.Misuse, match=r"hold\('reports'\) already guards a block.* call hold\(…\) for each"
            ):
                await guard.__aenter__()
            assert (await hands.view()).state == "held"
        async with guard as second:
            assert second.epoch > first.epoch


async def test_a_guard_that_was_refused_may_ask_again_as_another_holder() -> None:
    async with opened() as hands:
        unreliable = await Unreliable.under(hands.app)
        tries = counting(unreliable)
        guard = hands.app.leases.hold("reports")
        unreliable.away = 1
        with pytest.raises(errors.StorageUnavailable):
            await guard.__aenter__()

        async with guard:
            assert len(set(tries)) == 2


async def test_every_holder_has_a_greater_epoch() -> None:
    epochs = []
    async with opened() as hands:
        for _ in range(5):
            async with hands.app.leases.hold("reports") as lease:
                epochs.append(lease.epoch)

    assert epochs == sorted(set(epochs))


async def test_acquired_by_hand_it_is_released_by_hand() -> None:
    async with opened() as hands:
        lease = await hands.app.leases.acquire("reports")
        assert isinstance(lease, Lease)

        released, again = await lease.release(), await lease.release()

        assert (released, again, lease.lost) == (True, False, True)
        with pytest.raises(errors.LeaseLost, match="it was released"):
            lease.raise_if_lost()
        with pytest.raises(errors.LeaseLost):
            async with lease:
                pass


async def test_acquired_by_hand_it_may_guard_a_block() -> None:
    async with opened() as hands:
        lease = await hands.app.leases.acquire("reports")
        assert lease is not None

        async with lease:
            assert (await hands.view()).state == "held"
        released_inside = await hands.app.leases.acquire("reports")
        assert released_inside is not None
        async with released_inside:
            await released_inside.release()

        assert (await hands.view()).state == "free"


async def test_it_is_renewed_in_the_background() -> None:
    async with opened() as hands, hands.app.leases.hold("reports", "30s") as lease:
        first = await hands.view()
        for _ in range(5):
            hands.pass_time(18)
            async with asyncio.timeout(30):
                while (await hands.view()).renewed_at == first.renewed_at:
                    await asyncio.sleep(0.005)
            first = await hands.view()

        assert not lease.lost


def test_a_block_that_blocks_the_event_loop_keeps_its_lease(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    app = Mainspring(f"sqlite:///{path}")
    clock = HandClock(datetime(2030, 1, 1, tzinfo=UTC))
    app._code.clock.replace(clock)

    async def main() -> None:
        async with app, app.leases.hold("reports", "30s") as lease:
            clock.advance(18 * SECOND)
            with contextlib.closing(sqlite3.connect(path)) as client:
                read = "SELECT renewed_at > acquired_at FROM mainspring_lease"
                # Nothing else runs on this loop until somebody has renewed it.
                while client.execute(read).fetchone() == (0,):
                    time.sleep(0.01)
            lease.raise_if_lost()

    asyncio.run(main())


async def test_it_is_renewed_now_when_asked() -> None:
    async with opened() as hands, hands.app.leases.hold("reports", "30s") as lease:
        before = await hands.view()

        await lease.renew_now()

        assert (await hands.view()).renewed_at > before.renewed_at


async def test_its_time_counts_from_the_request_however_long_the_reply_takes() -> None:
    async with opened() as hands:
        unreliable = await Unreliable.under(hands.app)
        unreliable.replying = lambda: hands.clock.advance(4 * SECOND)

        lease = await hands.app.leases.acquire("reports", "30s")
        assert lease is not None
        acquired = lease._left()
        hands.clock.advance(6 * SECOND)
        await lease.renew_now()
        renewed = lease._left()

    assert (acquired, renewed) == (26.0, 26.0)


async def test_renewing_now_waits_for_whoever_has_it_locked() -> None:
    async with opened() as hands, hands.app.leases.hold("reports") as lease:
        unreliable = await Unreliable.under(hands.app)
        unreliable.busy = 2
        before = await hands.view()

        await lease.renew_now()

        assert unreliable.busy == 0
        assert (await hands.view()).renewed_at > before.renewed_at


async def test_renewing_now_finds_out_that_it_is_lost() -> None:
    async with opened() as hands:
        lease = await hands.app.leases.acquire("reports")
        assert lease is not None
        await hands.app.leases.release("reports", by="ann", reason="stuck")

        assert not lease.lost
        with pytest.raises(errors.LeaseLost, match="released by an operator"):
            await lease.renew_now()
        assert lease.lost


async def test_an_operators_release_is_audited() -> None:
    async with opened() as hands:
        lease = await hands.app.leases.acquire("reports")
        assert lease is not None

        released = await hands.app.leases.release("reports", by="ann", reason="stuck")
        again = await hands.app.leases.release("reports", by="ann")

        (note,) = await hands.app.audit()
        assert (released, again) == (True, False)
        assert (note.by, note.action, note.subject) == ("ann", "lease release", "reports")


async def test_leases_are_listed_by_name() -> None:
    async with opened() as hands:
        for name in ("b", "a", "d", "c"):
            await hands.app.leases.acquire(name)

        assert [view.name for view in await hands.app.leases.list()] == ["a", "b", "c", "d"]


async def test_a_lease_that_is_still_held_when_the_app_closes_is_released() -> None:
    async with opened() as hands:
        lease = await hands.app.leases.acquire("reports")
        assert lease is not None
        storage = await hands.app._connection.storage("a test")

    found = await storage.leases.find("reports")
    assert found is not None
    assert (found.state, lease.lost) == ("free", True)
    with pytest.raises(errors.LeaseLost, match="the app was closed"):
        lease.raise_if_lost()


# --- waiting ---------------------------------------------------------------------------------------------------


async def test_who_waits_gets_it_when_it_is_released() -> None:
    async with opened() as hands:
        first = await hands.app.leases.acquire("reports")
        assert first is not None
        unreliable = await Unreliable.under(hands.app)
        unreliable.away = 1  # an outage while it waits does not end the wait

        async def wait() -> int:
            async with hands.app.leases.hold("reports", wait=True) as lease:
                return lease.epoch

        waiting = asyncio.create_task(wait())
        while unreliable.away:
            await asyncio.sleep(0)
        await first.release()

        assert await waiting > first.epoch


async def test_who_has_waited_long_enough_is_told_who_holds_it() -> None:
    async with opened() as hands, hands.app.leases.hold("reports", "1h"):
        tries = counting(await Unreliable.under(hands.app))
        waiting = asyncio.create_task(_enter(hands.app, wait="1m"))
        await until(lambda: len(tries) >= 2)
        assert not waiting.done()

        hands.clock.advance(60 * SECOND)

        with pytest.raises(errors.LeaseHeld, match="after a wait of 1m"):
            await waiting


async def test_who_waits_through_an_outage_hears_of_it_in_the_end() -> None:
    async with opened() as hands:
        unreliable = await Unreliable.under(hands.app)
        unreliable.away = 1_000_000

        with pytest.raises(errors.StorageUnavailable):
            await _enter(hands.app, wait="0s")


# --- replies that are lost -------------------------------------------------------------------------------------


async def test_an_acquire_whose_reply_was_lost_is_sent_again_by_who_waits() -> None:
    async with opened() as hands:
        unreliable = await Unreliable.under(hands.app)
        unreliable.unheard = 1

        async with hands.app.leases.hold("reports", wait=True) as lease:
            view = await hands.view()

        assert view.epoch == lease.epoch == 1, "it has found its own hold"


async def test_an_acquire_whose_reply_was_lost_does_not_hold_it_for_nobody() -> None:
    async with opened() as hands:
        unreliable = await Unreliable.under(hands.app)
        unreliable.unheard = 1

        with pytest.raises(errors.StorageUnavailable):
            await hands.app.leases.acquire("reports", "1h")

        await hands.becomes("free")


async def test_an_acquire_that_was_cancelled_does_not_hold_it_for_nobody() -> None:
    async with opened() as hands:
        unreliable = await Unreliable.under(hands.app)
        unreliable.hangs = asyncio.Event()
        acquiring = asyncio.create_task(hands.app.leases.acquire("reports", "1h"))
        await unreliable.hangs.wait()

        acquiring.cancel()

        with pytest.raises(asyncio.CancelledError):
            await acquiring
        await hands.becomes("free")


async def test_a_release_that_fails_hides_nothing_and_is_made_up_for(caplog: pytest.LogCaptureFixture) -> None:
    async with opened() as hands:
        unreliable = await Unreliable.under(hands.app)

        async def fail() -> None:
            async with hands.app.leases.hold("reports", "1h"):
                unreliable.away = 1
                raise ZeroDivisionError

        with caplog.at_level(logging.WARNING, "mainspring.leases"), pytest.raises(ZeroDivisionError):
            await fail()
        assert "released later, or expires" in caplog.text
        await hands.becomes("free")
        async with hands.app.leases.hold("reports", "1h"):
            unreliable.away = 1
        await hands.becomes("free")


async def test_a_release_by_hand_that_fails_says_so_and_is_made_up_for() -> None:
    async with opened() as hands:
        unreliable = await Unreliable.under(hands.app)
        lease = await hands.app.leases.acquire("reports", "1h")
        assert lease is not None
        unreliable.away = 1

        with pytest.raises(errors.StorageUnavailable):
            await lease.release()

        assert lease.lost
        await hands.becomes("free")


async def _enter(app: Mainspring, wait: str) -> None:
    async with app.leases.hold("reports", wait=wait):
        pass
