"""A lost lease cancels its block, once, and raises LeaseLost; nobody else's cancellation is ever taken for it."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from mainspring import Lease, Mainspring, errors
from mainspring.model.lease import Renewed
from tests.integration.app.leasing import Hands, opened, until

Body = Callable[[Lease], Awaitable[None]]


class Guarded:
    """A task with a block under a lease, and how it went."""

    def __init__(self, hands: Hands, body: Body | None = None) -> None:
        self.inside = asyncio.Event()
        self.cancellations = 0
        self.lease: Lease | None = None
        self._hands = hands
        self._body = body or self._wait
        self.task = asyncio.create_task(self._run())

    async def begun(self) -> Lease:
        await self.inside.wait()
        assert self.lease is not None
        return self.lease

    async def _run(self) -> None:
        async with self._hands.app.leases.hold("reports", "30s") as self.lease:
            self.inside.set()
            await self._body(self.lease)

    async def _wait(self, _: Lease) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancellations += 1
            raise


async def take_away(hands: Hands) -> None:
    """Release it behind its holder's back, and let the next renewal find out."""
    await hands.app.leases.release("reports", by="ann")
    hands.pass_time(18)


async def test_a_lost_lease_cancels_its_block_which_raises() -> None:
    async with opened() as hands:
        guarded = Guarded(hands)
        lease = await guarded.begun()

        await take_away(hands)

        with pytest.raises(errors.LeaseLost, match="released by an operator") as caught:
            await guarded.task
        assert (caught.value.name, caught.value.epoch) == ("reports", lease.epoch)
        assert isinstance(caught.value.__cause__, asyncio.CancelledError)
        assert (guarded.cancellations, guarded.task.cancelling()) == (1, 0)


async def test_a_lease_that_ran_out_cancels_its_block() -> None:
    async with opened() as hands:
        guarded = Guarded(hands)
        lease = await guarded.begun()

        hands.pass_time(30)

        assert lease.lost
        with pytest.raises(errors.LeaseLost, match="expired"):
            await guarded.task


async def test_a_database_that_does_not_answer_cannot_keep_a_block_from_being_cancelled() -> None:
    app = Mainspring("memory://")

    async def never(renewals: object) -> Renewed:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def work() -> None:
        async with app.leases.hold("reports", "1s"):
            keeper = app.leases._operations.keeping._here
            assert keeper is not None
            keeper._storage.leases.renew = never  # type: ignore[method-assign]
            await until(asked.is_set)
            await asyncio.Event().wait()

    asked = threading.Event()
    async with app:
        with pytest.raises(errors.LeaseLost, match="expired"):
            await work()


async def test_a_task_goes_on_after_a_lost_lease() -> None:
    async with opened() as hands:
        went_on: list[bool] = []

        async def work() -> None:
            try:
                async with hands.app.leases.hold("reports", "30s"):
                    inside.set()
                    await asyncio.Event().wait()
            except errors.LeaseLost:
                await asyncio.sleep(0)
                async with asyncio.timeout(30), hands.app.leases.hold("reports", "30s"):
                    await asyncio.sleep(0)
                    went_on.append(True)

        inside = asyncio.Event()
        working = asyncio.create_task(work())
        await inside.wait()
        await take_away(hands)
        await working

        assert went_on == [True]


async def test_a_cancellation_from_elsewhere_passes_and_the_lease_is_released() -> None:
    async with opened() as hands:
        guarded = Guarded(hands)
        await guarded.begun()

        guarded.task.cancel()

        with pytest.raises(asyncio.CancelledError):
            await guarded.task
        assert guarded.task.cancelled()
        assert (await hands.view()).state == "free"


async def test_a_cancellation_from_elsewhere_is_not_hidden_by_a_lost_lease() -> None:
    async with opened() as hands:

        async def tidy_up(lease: Lease) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                told.set()
                await tidied.wait()

        told, tidied = asyncio.Event(), asyncio.Event()
        guarded = Guarded(hands, tidy_up)
        await guarded.begun()
        await take_away(hands)
        await told.wait()

        guarded.task.cancel()

        with pytest.raises(asyncio.CancelledError):
            await guarded.task
        assert guarded.task.cancelled()


async def test_a_lease_lost_while_its_block_is_being_cancelled_does_not_cancel_again() -> None:
    async with opened() as hands:

        async def tidy_up(lease: Lease) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                told.set()
                await tidied.wait()
                tidy.append(True)

        tidy: list[bool] = []
        told, tidied = asyncio.Event(), asyncio.Event()
        guarded = Guarded(hands, tidy_up)
        lease = await guarded.begun()
        await take_away(hands)
        await told.wait()
        hands.pass_time(60)
        for _ in range(5):
            await asyncio.sleep(0)
        tidied.set()

        with pytest.raises(errors.LeaseLost):
            await guarded.task
        assert (tidy, lease.lost) == ([True], True)


async def test_a_block_that_swallows_the_cancellation_raises_all_the_same() -> None:
    async with opened() as hands:

        async def swallow(lease: Lease) -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await asyncio.sleep(0)

        guarded = Guarded(hands, swallow)
        await guarded.begun()
        await take_away(hands)

        with pytest.raises(errors.LeaseLost):
            await guarded.task
        assert guarded.task.cancelling() == 0


async def test_what_the_block_raises_when_it_is_cancelled_is_not_hidden() -> None:
    async with opened() as hands:

        async def break_(lease: Lease) -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise OSError("disk") from None

        guarded = Guarded(hands, break_)
        await guarded.begun()
        await take_away(hands)

        with pytest.raises(OSError, match="disk"):
            await guarded.task


async def test_a_timeout_around_the_block_is_still_a_timeout() -> None:
    async with opened() as hands:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0), hands.app.leases.hold("reports"):
                await asyncio.Event().wait()

        assert (await hands.view()).state == "free"


async def test_a_timeout_inside_the_block_does_not_take_a_lost_lease_for_its_own() -> None:
    async with opened() as hands:

        async def limited(lease: Lease) -> None:
            async with asyncio.timeout(3600):
                await asyncio.Event().wait()

        guarded = Guarded(hands, limited)
        await guarded.begun()
        await take_away(hands)

        with pytest.raises(errors.LeaseLost):
            await guarded.task


async def test_of_two_blocks_in_one_the_inner_one_leaves_the_outer_ones_loss_alone() -> None:
    async with opened() as hands:

        async def nested(lease: Lease) -> None:
            async with hands.app.leases.hold("inner", "30s"):
                inside.set()
                await asyncio.Event().wait()

        inside = asyncio.Event()
        guarded = Guarded(hands, nested)
        await inside.wait()
        await take_away(hands)

        with pytest.raises(errors.LeaseLost) as caught:
            await guarded.task
        assert caught.value.name == "reports"
        assert (await hands.view("inner")).state == "free"


async def test_two_blocks_that_are_both_lost_end_as_one() -> None:
    async with opened() as hands:

        async def nested(lease: Lease) -> None:
            async with hands.app.leases.hold("inner", "30s"):
                inside.set()
                await asyncio.Event().wait()

        inside = asyncio.Event()
        guarded = Guarded(hands, nested)
        await inside.wait()
        hands.pass_time(30)

        with pytest.raises(errors.LeaseLost):
            await guarded.task
        assert guarded.task.cancelling() == 0


async def test_tasks_of_a_group_in_the_block_are_cancelled_with_it() -> None:
    async with opened() as hands:

        async def several(lease: Lease) -> None:
            async with asyncio.TaskGroup() as group:
                children.extend(group.create_task(asyncio.Event().wait()) for _ in range(3))

        children: list[asyncio.Task[bool]] = []
        guarded = Guarded(hands, several)
        await guarded.begun()
        await until(lambda: len(children) == 3)
        await take_away(hands)

        with pytest.raises(errors.LeaseLost):
            await guarded.task
        assert all(child.cancelled() for child in children)


async def test_a_block_that_ends_before_it_was_told_raises_when_the_database_knows_better() -> None:
    async with opened() as hands:
        with pytest.raises(errors.LeaseLost, match="released by an operator"):
            async with hands.app.leases.hold("reports"):
                await hands.app.leases.release("reports", by="ann")


async def test_a_lease_without_a_block_cancels_nobody() -> None:
    async with opened() as hands:
        lease = await hands.app.leases.acquire("reports", "30s")
        assert lease is not None
        await take_away(hands)

        await until(lambda: lease.lost)

        assert (task := asyncio.current_task()) is not None
        assert task.cancelling() == 0


async def test_a_block_that_outlives_the_app_is_cancelled_before_anybody_else_has_the_lease() -> None:
    async with opened() as hands:
        guarded = Guarded(hands)
        lease = await guarded.begun()

    assert lease.lost
    with pytest.raises(errors.LeaseLost, match="the app was closed"):
        await guarded.task
    assert guarded.cancellations == 1
