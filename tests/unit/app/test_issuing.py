"""What operators publish by hand, and what they do to deliveries they have picked."""

from pathlib import Path

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
        receipt = await app.messages.issue("orders.placed", {"id": 1}, key="order:1", priority="high", by="ada")
        found = await app.messages.show(receipt.id)
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
        receipt = await app.messages.issue("orders.placed", {"id": 1}, group="bill")
        found = await app.messages.show(receipt.id)
        (line,) = await app.audit()

    assert found is not None
    assert [each.group for each in found.deliveries] == ["bill"]
    assert (line.subject, line.detail) == ("orders.placed", f"message {receipt.id}, for bill")


async def test_a_copy_is_part_of_nothing_that_its_original_was_part_of() -> None:
    app = _app()
    headers = {"traceparent": "00-1", "shop": "berlin"}
    async with app:
        original = await app.publish("orders.placed", {"id": 1}, key="order:1", headers=headers)
        receipt = await app.messages.issue("orders.placed", copy_of=original.id)
        copy = await app.messages.show(receipt.id)

    assert copy is not None
    assert (copy.payload, copy.key, dict(copy.headers)) == (b'{"id":1}', "order:1", {"shop": "berlin"})
    assert (copy.causation_id, copy.correlation_id) == (original.id, str(original.id))


async def test_what_a_copy_says_itself_goes_before_its_original() -> None:
    app = _app()
    async with app:
        original = await app.publish("orders.placed", {"id": 1}, key="order:1", headers={"shop": "berlin"})
        receipt = await app.messages.issue(
            "orders.moved", {"id": 2}, copy_of=str(original.id), key="order:2", headers={"shop": "ulm"}, delay="1h"
        )
        copy = await app.messages.show(receipt.id)

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
            await app.messages.issue("orders.placed", {"id": 1}, **options)  # type: ignore[arg-type]
        lines = await app.audit()

    assert lines == []


async def test_a_message_of_another_namespace_is_not_there_to_copy(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    async with Mainspring(url, namespace="blue") as blue, Mainspring(url, namespace="green") as green:
        receipt = await blue.publish("orders.placed", {"id": 1})

        with pytest.raises(BadOption, match="there is no message"):
            await green.messages.issue("orders.placed", copy_of=receipt.id)


async def test_what_another_namespace_has_parked_is_not_withdrawn(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/both.db"
    async with Mainspring(url, namespace="blue") as blue, Mainspring(url, namespace="green") as green:
        receipt = await blue.publish("nobody.listens", {"id": 1})

        theirs = await green.messages.withdraw([(receipt.id, "")])
        ours = await blue.messages.withdraw([(receipt.id, "")])

    assert (theirs.cancelled, ours.cancelled) == (0, 1)


async def test_picked_deliveries_are_hastened_and_withdrawn() -> None:
    app = _app("blue")
    async with app:
        await app.declare()
        receipt = await app.publish("orders.placed", {"id": 1}, delay="1h")
        hastened = await app.messages.hasten([(receipt.id, "ship"), (NOBODY, "ship")], by="ada")
        states = {each.group: each.state for each in await app.messages.list()}
        withdrawn = await app.messages.withdraw([(str(receipt.id), "ship"), (receipt.id, "bill")], by="ada")
        left = await app.messages.list()
        actions = [(line.by, line.action) for line in await app.audit()]

    assert hastened == 1
    assert states == {"ship": "ready", "bill": "scheduled"}
    assert (withdrawn.cancelled, withdrawn.asked) == (2, 0)
    assert left == []
    assert actions == [("ada", "cancel"), ("ada", "hasten")]


def test_blocking_callers_have_the_same() -> None:
    app = _app()
    app.sync.declare()

    receipt = app.sync.messages.issue("orders.placed", {"id": 1}, delay="1h", by="ada")
    hastened = app.sync.messages.hasten([(receipt.id, "ship")])
    withdrawn = app.sync.messages.withdraw([(receipt.id, "bill")])

    assert (hastened, withdrawn.cancelled) == (1, 1)
    app.sync.close()
