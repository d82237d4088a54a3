"""Leases that could not be renewed are named by health, while they are late and for a while after their loss."""

import asyncio

from mainspring import Check, Mainspring
from tests.integration.app.leasing import Hands, opened
from tests.integration.app.measuring import of, scraped


async def leases(app: Mainspring) -> Check | None:
    return next((check for check in (await app.health()).checks if check.name == "leases"), None)


async def until_told(hands: Hands) -> Check:
    async with asyncio.timeout(30):
        while (check := await leases(hands.app)) is None:
            await asyncio.sleep(0.005)
    return check


async def test_a_lease_that_an_operator_took_away_is_told_for_five_minutes() -> None:
    async with opened() as hands:
        lease = await hands.app.leases.acquire("reports", "30s")
        assert lease is not None
        before = await leases(hands.app)
        await hands.app.leases.release("reports", by="ann")
        hands.pass_time(18)
        check = await until_told(hands)
        hands.pass_time(301)
        after = await leases(hands.app)

    assert (before, after) == (None, None)
    assert (check.status, check.data) == ("degraded", {"lost": ["reports"], "late": []})
    assert check.summary.startswith("reports was lost ")
    assert check.summary.endswith("ago: according to the database it expired, or was released by an operator")


async def test_a_lease_whose_renewal_fails_is_told_before_it_is_lost() -> None:
    async with opened() as hands:
        lease = await hands.app.leases.acquire("reports", "30s")
        assert lease is not None
        keeper = hands.app.leases._operations.keeping._here
        assert keeper is not None

        async def away() -> None:
            raise ConnectionError("no route to host")

        keeper.opened = away  # type: ignore[assignment, method-assign]
        hands.pass_time(19)
        none_yet = await leases(hands.app)
        hands.pass_time(4)
        late = await until_told(hands)
        hands.pass_time(8)
        async with asyncio.timeout(30):
            while (lost := await until_told(hands)).data["lost"] != ["reports"]:
                await asyncio.sleep(0.005)
        del keeper.opened

    assert none_yet is None
    assert late.data == {"lost": [], "late": ["reports"]}
    assert late.summary.startswith("reports could not be renewed for ")
    assert lost.summary.endswith("it expired before it was renewed")


async def test_a_lease_that_is_released_or_closed_is_no_trouble() -> None:
    async with opened() as hands:
        lease = await hands.app.leases.acquire("reports", "30s")
        assert lease is not None
        await lease.release()
        kept = await hands.app.leases.acquire("imports", "30s")
        check = await leases(hands.app)

    assert kept is not None
    assert check is None


async def test_acquisitions_refusals_and_losses_are_counted() -> None:
    async with opened() as hands:
        app = hands.app
        held = [await app.leases.acquire(name, "30s") for name in ("reports", "imports")]
        again = await app.leases.acquire("reports", "30s")
        await app.leases.release("reports", by="ann")
        hands.pass_time(18)
        await until_told(hands)
        numbers = of(scraped(await app.metrics()), "mainspring_lease_events_total")

    assert (len(held), again) == (2, None)
    assert numbers == {"acquired": 2, "refused": 1, "lost": 1}
