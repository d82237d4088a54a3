"""Leases in a test: nobody renews them, and time passes only when the test says so."""

import pytest

from mainspring import Mainspring, Testing, errors


async def test_a_lease_is_held_for_a_block(app: Mainspring, kit: Testing) -> None:
    async with app.leases.hold("reports") as lease:
        inside = await app.leases.get("reports")
        refused = await app.leases.acquire("reports")

    after = await app.leases.get("reports")
    assert inside is not None
    assert after is not None
    assert (inside.state, inside.epoch, inside.acquired_at) == ("held", lease.epoch, kit.now)
    assert refused is None
    assert after.state == "free"


async def test_a_lease_runs_out_when_the_test_lets_its_time_pass(app: Mainspring, kit: Testing) -> None:
    lease = await app.leases.acquire("reports", "30s")
    assert lease is not None

    kit.elapse("29s")
    in_time = lease.lost
    kit.elapse("1s")

    assert (in_time, lease.lost) == (False, True)
    with pytest.raises(errors.LeaseLost, match="expired"):
        lease.raise_if_lost()
    with pytest.raises(errors.LeaseLost):
        await lease.renew_now()
    assert await lease.release() is False
    assert (await app.leases.acquire("reports")) is not None


async def test_leaving_the_block_of_a_lost_lease_raises(app: Mainspring, kit: Testing) -> None:
    with pytest.raises(errors.LeaseLost, match="'reports' is lost, epoch 1: it expired"):
        async with app.leases.hold("reports", "30s"):
            kit.elapse("30s")


async def test_what_the_block_raises_itself_is_not_hidden(app: Mainspring, kit: Testing) -> None:
    async def work() -> None:
        async with app.leases.hold("reports", "30s"):
            kit.elapse("30s")
            raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        await work()


async def test_a_lease_is_renewed_by_hand(app: Mainspring, kit: Testing) -> None:
    async with app.leases.hold("reports", "30s") as lease:
        kit.elapse("20s")
        await lease.renew_now()
        kit.elapse("20s")

        lease.raise_if_lost()


async def test_nobody_waits_in_a_test(app: Mainspring, kit: Testing) -> None:
    await app.leases.acquire("reports")

    with pytest.raises(errors.LeaseHeld):
        async with app.leases.hold("reports", wait=True):
            pass


async def test_a_lease_is_confirmed_whatever_the_transaction_is(app: Mainspring, kit: Testing) -> None:
    lease = await app.leases.acquire("reports")
    assert lease is not None

    await lease.confirm(tx=object())
    await app.leases.release("reports", by="ann")

    with pytest.raises(errors.LeaseLost, match="released by an operator"):
        await lease.confirm(tx=object())
    assert lease.lost


def test_a_blocking_test_needs_no_loop(app: Mainspring, kit: Testing) -> None:
    with app.sync.leases.hold("reports", "30s") as lease:
        kit.elapse("20s")
        lease.renew_now()
        lease.confirm(tx=object())
        kit.elapse("20s")
        assert not lease.lost
    with pytest.raises(errors.LeaseLost), app.sync.leases.hold("reports", "30s"):
        kit.elapse("30s")

    assert [(view.name, view.state) for view in app.sync.leases.list()] == [("reports", "expired")]


async def test_a_handler_may_hold_one(app: Mainspring, kit: Testing) -> None:
    epochs: list[int] = []

    @app.consumer("reports.due")
    async def report(day: int) -> None:
        async with app.leases.hold("reports") as lease:
            epochs.append(lease.epoch)

    await app.publish("reports.due", 1)
    await app.publish("reports.due", 2)
    await kit.drain()

    assert epochs == [1, 2]
