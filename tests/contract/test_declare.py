"""Declarations: the groups and exactly their subscriptions."""

import asyncio

import pytest

from mainspring.model.errors import Conflict
from mainspring.model.views import Declaration, GroupView
from mainspring.storage.contract import Storage
from tests.contract.acting import MINUTE, NOON, claim, declare, draft, ids, publish, siblings, turn


async def _groups(storage: Storage) -> dict[str, GroupView]:
    return {group.name: group for group in (await storage.ledger.roster()).groups}


async def test_a_declared_group_is_on_the_roster(storage: Storage) -> None:
    options = {"retry": "exponential", "größe": "'ja'"}

    await storage.upkeep.declare([Declaration("mailer", "shop", ("orders.placed", "invoices.#"), "shop:mail", options)])

    (group,) = (await storage.ledger.roster()).groups
    assert (group.name, group.app, group.handler) == ("mailer", "shop", "shop:mail")
    assert set(group.patterns) == {"orders.placed", "invoices.#"}
    assert group.options == options
    assert (group.declared_at, group.served_at, group.paused_at) == (NOON, None, None)


async def test_the_same_declaration_again_changes_nothing(storage: Storage) -> None:
    declaration = Declaration("mailer", "shop", ("orders.*", "#"), "shop:mail", {"a": "b"})
    await storage.upkeep.declare([declaration])
    before = await _groups(storage)

    turn(storage, MINUTE)
    await storage.upkeep.declare([declaration])

    assert await _groups(storage) == before


async def test_several_groups_are_declared_at_once(storage: Storage) -> None:
    await storage.upkeep.declare(
        [Declaration(name, "shop", (f"{name}.#",), f"shop:{name}") for name in ("b", "a", "c")]
    )

    groups = await _groups(storage)

    assert {name: group.patterns for name, group in groups.items()} == {
        "a": ("a.#",),
        "b": ("b.#",),
        "c": ("c.#",),
    }


async def test_a_pattern_given_twice_is_one_subscription(storage: Storage) -> None:
    await declare(storage, "mailer", "orders.*", "orders.*")

    assert (await _groups(storage))["mailer"].patterns == ("orders.*",)


async def test_a_changed_declaration_replaces_handler_options_and_subscriptions(storage: Storage) -> None:
    await storage.upkeep.declare([Declaration("mailer", "shop", ("a", "b"), "old", {"x": "1"})])

    await storage.upkeep.declare([Declaration("mailer", "shop", ("b", "c.*"), "new", {"y": "2"})])

    group = (await _groups(storage))["mailer"]
    assert (set(group.patterns), group.handler, group.options) == ({"b", "c.*"}, "new", {"y": "2"})
    kept, new, gone = draft("b"), draft("c.d"), draft("a")
    await publish(storage, kept, new, gone)
    assert ids(await claim(storage)) == [kept.id, new.id]


async def test_a_group_without_patterns_receives_only_what_is_sent_straight_to_it(storage: Storage) -> None:
    await storage.upkeep.declare([Declaration("mailer", "shop", (), "shop:mail")])
    direct, other = draft(group="mailer"), draft()

    await publish(storage, direct, other)

    assert (await _groups(storage))["mailer"].patterns == ()
    assert ids(await claim(storage)) == [direct.id]


async def test_what_was_routed_before_a_change_is_still_delivered(storage: Storage) -> None:
    await declare(storage, "mailer", "orders.*")
    message = draft("orders.placed")
    await publish(storage, message)

    await declare(storage, "mailer", "invoices.*")

    assert ids(await claim(storage)) == [message.id]


async def test_a_group_that_is_not_declared_any_more_stays(storage: Storage) -> None:
    await declare(storage, "mailer")
    await declare(storage, "analytics")

    await declare(storage, "mailer")

    assert set(await _groups(storage)) == {"mailer", "analytics"}


async def test_a_group_of_another_app_is_a_conflict_that_says_what_to_do(storage: Storage) -> None:
    await declare(storage, "mailer", app="shop")

    with pytest.raises(Conflict) as conflict:
        await declare(storage, "mailer", "other.topic", app="crm")

    assert str(conflict.value) == (
        "group 'mailer' belongs to app 'shop': if this is the same application, give it that name: "
        "Mainspring(…, name='shop'); if not, choose another group=…; only if 'shop' is gone for good: "
        "mainspring groups retire mailer"
    )
    assert (await _groups(storage))["mailer"].patterns == ("orders.placed",)


async def test_a_conflict_refuses_the_whole_declaration(storage: Storage) -> None:
    await declare(storage, "taken", app="shop")

    with pytest.raises(Conflict):
        await storage.upkeep.declare(
            [Declaration("free", "crm", ("#",), "crm:h"), Declaration("taken", "crm", ("#",), "crm:h")]
        )

    assert set(await _groups(storage)) == {"taken"}
    message = draft("anything")
    await publish(storage, message)
    assert await claim(storage, "free") == []


async def test_many_starters_may_declare_at_once(storage: Storage) -> None:
    declarations = [Declaration(f"group-{i}", "shop", ("orders.*", f"t{i}.#"), "h") for i in range(8)]

    async with siblings(storage, 6) as doors:
        await asyncio.gather(
            *(door.upkeep.declare(declarations[i:] + declarations[:i]) for i, door in enumerate(doors))
        )

    groups = await _groups(storage)
    assert {name: set(group.patterns) for name, group in groups.items()} == {
        f"group-{i}": {"orders.*", f"t{i}.#"} for i in range(8)
    }
