"""Doctor counts a queue in the code as in the code, and proposes to retire only what no process uses."""

from pathlib import Path

from mainspring import Mainspring
from mainspring.app.observe.doctor import of_app
from mainspring.model.views import Beat


def made(path: Path, *, queue: bool = True) -> Mainspring:
    app = Mainspring(f"sqlite:///{path}/shop.db", auto_migrate=True, name="shop")
    if queue:
        app.queue("packing", "stock.reserved")
    return app


async def found(app: Mainspring) -> dict[str, tuple[str, str, str]]:
    return {each.about: (each.grade, each.summary, each.advice) for each in await of_app(app, "shop:app", "")}


async def test_a_queue_in_the_code_is_in_the_code_although_no_process_serves_it(tmp_path: Path) -> None:
    app = made(tmp_path)
    await app.declare()
    only_uses = made(tmp_path, queue=False)
    only_uses.queue("packing")

    told = await found(app)

    assert told["groups"] == ("ok", "every group is declared", "")
    assert told["queues"] == ("ok", "1 in shop:app: packing", "")
    assert "consumers" not in told
    assert "groups" not in await found(only_uses)


async def test_a_queue_that_is_not_declared_is_told(tmp_path: Path) -> None:
    app = made(tmp_path)
    await app.migrate()

    grade, summary, advice = (await found(app))["groups"]

    assert (grade, summary) == ("warning", "not declared yet, so nothing that is published reaches them: packing")
    assert advice == "mainspring declare shop:app (a queue does it at its first use)"


async def test_a_group_of_a_live_process_is_never_proposed_for_retirement(tmp_path: Path) -> None:
    await made(tmp_path).declare()
    other = made(tmp_path, queue=False)
    other.consumer("orders.placed", group="mailer")(repr)
    await other.declare()
    async with other:
        storage = await other._connection.storage("the test")
        await storage.upkeep.beat(Beat("shop/w", "shop", "host", 1, ("packing", "mailer"), 0, "poll"))

    assert (await found(other))["groups"] == ("ok", "every consumer is declared", "")


async def test_messages_wait_in_a_group_only_if_some_do(tmp_path: Path) -> None:
    await made(tmp_path).declare()
    other = made(tmp_path, queue=False)
    retire = "mainspring groups retire packing"

    before = (await found(other))["groups"]
    async with other:
        await other.publish("stock.reserved", 1)
    after = (await found(other))["groups"]

    assert before == ("note", "declared, but no longer in the code: packing", retire)
    assert after == (
        "note",
        "declared, but no longer in the code: packing; messages still wait in packing",
        retire,
    )
