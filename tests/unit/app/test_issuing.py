"""What operators publish by hand, and what they do to deliveries they have picked."""

from pathlib import Path
from uuid import UUID

import pytest

from mainspring import Mainspring
from mainspring.model.errors import BadOption

NOBODY = "01890a5d-ac96-774b-bcce-b302099a8057"


def _app(namespace: str | None = None) -> Mainspring:
    app = Mainspring("memory://", name="shop", namespace=namespace)

    @app.consumer("orders.*")
    async def ship(order: dict[str, int]) -> None: ...

    @app.consumer("orders.placed")
    async def bill(order: dict[str, int]) -> None: ...

    return app


async def test_it_goes_to_all_who_subscribe_and_is_noted() -> None:
    app = _app()
    async with app:
        await app.declare()
        receipt = await app.messages.publish("orders.placed", {"id": 1}, key="order:1", priority="high", by="ada")
        found = await app.messages.get(receipt.id)
        (line,) = await app.audit()

    assert found is not None
    assert sorted((each.group, each.priority) for each in found.deliveries) == [("bill", 1), ("ship", 1)]
    assert (line.by, line.action, line.subject, line.detail) == (
        "ada",
        "publish",
        "orders.placed",
        f"message {receipt.id}",
    )


async def test_it_goes_to_one_group_only_if_it_says_so() -> None:
    app = _app("blue")
    async with app:
        await app.declare()
        receipt = await app.messages.publish("orders.placed", {"id": 1}, group="bill")
        found = await app.messages.get(receipt.id)
        (line,) = await app.audit()

    assert found is not None
    assert [each.group for each in found.deliveries] == ["bill"]
    assert (line.subject, line.detail) == ("orders.placed", f"message {receipt.id}, for bill")


async def test_a_copy_is_part_of_nothing_that_its_original_was_part_of() -> None:
    app = _app()
    headers = {"traceparent": "00-1", "shop": "berlin"}
    async with app:
        original = await app.publish("orders.placed", {"id": 1}, key="order:1", headers=headers)
        receipt = await app.messages.publish("orders.placed", copy_of=original.id)
        copy = await app.messages.get(receipt.id)

    assert copy is not None
    assert (copy.payload, copy.key, dict(copy.headers)) == (b'{"id":1}', "order:1", {"shop": "berlin"})
    assert (copy.causation_id, copy.correlation_id) == (original.id, str(original.id))


async def test_what_a_copy_says_itself_goes_before_its_original() -> None:
    app = _app()
    async with app:
        original = await app.publish("orders.placed", {"id": 1}, key="order:1", headers={"shop": "berlin"})
        receipt = await app.messages.publish(
            "orders.moved", {"id": 2}, copy_of=str(original.id), key="order:2", headers={"shop": "ulm"}, delay="1h"
        )
        copy = await app.messages.get(receipt.id)

    assert copy is not None
    assert (copy.topic, copy.payload, copy.key, dict(copy.headers)) == (
        "orders.moved",
        b'{"id":2}',
        "order:2",
        {"shop": "ulm"},
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"group": "bil"}, "there is no group 'bil'. Did you mean 'bill'?"),
        ({"copy_of": NOBODY}, "there is no message"),
        ({"delay": "soon"}, "is not a duration"),
    ],
)
async def test_what_cannot_be_meant_is_refused_and_not_noted(options: dict[str, str], said: str) -> None:
    app = _app()
    async with app:
        await app.declare()
        with pytest.raises(BadOption, match=said.replace("?", r"\?")):
            await app.messages.publish("orders.placed", {"id": 1}, **options)  # type: ignore[arg-type]
        lines = await app.audit()

    assert lines == []


async def test_a_message_of_another_namespace_is_not_there_to_copy(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    async with Mainspring(url, namespace="blue") as blue, Mainspring(url, namespace="green") as green:
        receipt = await blue.publish("orders.placed", {"id": 1})

        with pytest.raises(BadOption, match="there is no message"):
            await green.messages.publish("orders.placed", copy_of=receipt.id)


async def test_what_another_namespace_has_parked_is_not_cancelled(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/both.db"
    async with Mainspring(url, namespace="blue") as blue, Mainspring(url, namespace="green") as green:
        receipt = await blue.publish("nobody.listens", {"id": 1})

        theirs = await green.messages.cancel([(receipt.id, "")])
        ours = await blue.messages.cancel([(receipt.id, "")])

    assert (theirs.cancelled, ours.cancelled) == (0, 1)


async def test_picked_deliveries_are_run_now_and_cancelled() -> None:
    app = _app("blue")
    async with app:
        await app.declare()
        receipt = await app.publish("orders.placed", {"id": 1}, delay="1h")
        due_now = await app.messages.run_now([(receipt.id, "ship"), (NOBODY, "ship")], by="ada")
        states = {each.group: each.state for each in await app.messages.list()}
        cancelled = await app.messages.cancel([(str(receipt.id), "ship"), (receipt.id, "bill")], by="ada")
        left = await app.messages.list()
        actions = [(line.by, line.action) for line in await app.audit()]

    assert due_now == 1
    assert states == {"ship": "ready", "bill": "scheduled"}
    assert (cancelled.cancelled, cancelled.asked) == (2, 0)
    assert left == []
    assert actions == [("ada", "cancel"), ("ada", "run_now")]


async def test_one_cancel_takes_a_message_a_delivery_or_several() -> None:
    app = _app()
    async with app:
        await app.declare()
        one, two, three = [await app.publish("orders.placed", {"id": number}) for number in range(3)]
        whole = await app.messages.cancel(str(one.id), by="ada", reason="why")
        single = await app.messages.cancel((two.id, "ship"))
        several = await app.messages.cancel([two.id, (three.id, "bill"), (str(three.id), "bill"), NOBODY])
        left = [(each.message_id, each.group) for each in await app.messages.list()]
        first = (await app.audit())[-1]

    assert [each.cancelled for each in (whole, single, several)] == [2, 1, 2]
    assert left == [(three.id, "ship")]
    assert (first.by, first.action, first.subject, first.detail) == ("ada", "cancel", f"message {one.id}", "why")


async def test_only_a_delivery_is_run_now_and_nothing_else_is_an_id() -> None:
    app = _app()
    async with app:
        with pytest.raises(BadOption, match=r"takes deliveries, each \(message_id, group\), not "):
            await app.messages.run_now([UUID(NOBODY)])  # type: ignore[list-item]
        with pytest.raises(BadOption):
            await app.messages.cancel(("a", "b", "c"))
        assert await app.audit() == []


def test_blocking_callers_have_the_same() -> None:
    app = _app()
    app.sync.declare()

    receipt = app.sync.messages.publish("orders.placed", {"id": 1}, delay="1h", by="ada")
    due_now = app.sync.messages.run_now([(receipt.id, "ship")])
    cancelled = app.sync.messages.cancel([(receipt.id, "bill")])

    assert (due_now, cancelled.cancelled) == (1, 1)
    app.sync.close()
