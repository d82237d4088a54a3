"""Every public call of an app, made with the names, keys and ids of another namespace.

A call is a function of the app or of ``app.sync``. What it yields is awaited where it can be and sent back; so one
serves both. What another namespace alone has is refused or not there.
"""

from collections.abc import Callable, Generator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from mainspring import Retention, every
from mainspring.app.sync import Sync
from mainspring.model.errors import MainspringError
from mainspring.model.search import Filter
from tests.integration.namespaces.world import ALONE, DEAD, HOUR, MINE, PARKED, TAKEN, WAITING

Steps = Generator[Any, Any, Any]
Call = Callable[[Any], Any]
START = datetime(2030, 1, 1, tzinfo=UTC)
BOTH = (WAITING, ALONE)


def each(call: Callable[[Any, UUID], Any], *ids: UUID) -> Call:
    """The call for each of these ids, one after another."""

    def steps(face: Any) -> Steps:
        answers: list[Any] = []
        for which in ids or BOTH:
            answers += [(yield call(face, which))]
        return answers

    return steps


def refused(call: Call) -> Call:
    """The call, which has to be refused; the answer is what it says."""

    def steps(face: Any) -> Steps:
        try:
            answer = yield call(face)
        except MainspringError as error:
            return str(error)
        raise AssertionError(f"nothing refused it: {answer!r}")

    return steps


def entered(call: Call) -> Call:
    """What the context manager gives, and its end."""

    async def awaited(guard: Any) -> Any:
        async with guard as given:
            return given

    def steps(face: Any) -> Steps:
        guard = call(face)
        if hasattr(guard, "__aenter__"):
            return (yield awaited(guard))
        with guard as given:
            return given

    return steps


def published(face: Any) -> Steps:
    """An id that only the other namespace knows is new here."""
    id = TAKEN[type(face._face) is Sync]
    receipt = yield face.publish("orders.placed", {"who": MINE}, message_id=id, delay=HOUR)
    alike = yield face.publish("orders.paid", {"who": MINE}, unique="key", key=str(id), delay=HOUR)
    assert (receipt.status, alike.status) == ("stored", "stored"), f"it is told as {receipt}, {alike}"
    return receipt, alike


def pruned(face: Any) -> Steps:
    none = timedelta()
    everything = Retention(done=none, failures=none, dead=none, parked=none)
    return (yield face.prune(everything)), (yield face.prune(everything, topic="orders.#"))


def joined(face: Any) -> Steps:
    ship, bill = face.walked
    return (yield face.join([(bill, {"who": MINE})], then=(ship, {"who": MINE}), key="order:1"))


def of_join(call: Callable[[Any, Any], Any]) -> Call:
    """The call for a join of this namespace, and for one of the other, which is not there."""

    def steps(face: Any) -> Steps:
        (view, *_) = yield face.joins.list()
        mine = yield call(face, view.id)
        try:
            return mine, (yield call(face, face.their_join))
        except MainspringError as error:
            return mine, str(error)

    return steps


def held(call: Callable[[Any, Any], Any]) -> Call:
    """The call for what a queue has claimed."""

    def steps(face: Any) -> Steps:
        queue = face.queue("jobs")
        yield face.publish("jobs.new", {"who": MINE})
        items = yield queue.claim(1)
        return items, (yield call(queue, items[0]))

    return steps


def first_item(face: Any) -> Steps:
    yield face.publish("jobs.new", {"who": MINE})
    items = face.queue("jobs").items()
    item = yield anext(items) if hasattr(items, "__anext__") else next(items)
    yield items.aclose() if hasattr(items, "aclose") else items.close()
    return item.payload


def declared(call: Call) -> Call:
    """The call, with every group there."""

    def steps(face: Any) -> Steps:
        yield face.declare()
        return (yield call(face))

    return steps


def marked(verb: str) -> Call:
    def steps(face: Any) -> Steps:
        admission = yield face.inbox.admit(f"evt_{verb}_{type(face._face).__name__}", "stripe")
        return admission, (yield getattr(face.inbox, verb)(admission, **({} if verb == "done" else {"error": MINE})))

    return steps


CALLS: dict[str, Call] = {
    "audit": lambda face: face.audit(),
    "note": lambda face: face.note("export", "orders", by="ada"),
    "cancel": each(lambda face, which: face.cancel(which)),
    "declare": lambda face: face.declare(),
    "health": lambda face: face.health(),
    "join": joined,
    "stats.measures": lambda face: face.stats.measures("24h"),
    "metrics": lambda face: face.metrics(),
    "migrate": lambda face: face.migrate(),
    "stats.rates": lambda face: face.stats.rates(),
    "publish": published,
    "publish_many": lambda face: face.publish_many([("orders.placed", {"who": MINE})] * 3, delay=HOUR),
    "stats.roster": lambda face: face.stats.roster(),
    "stats.tally": lambda face: face.stats.tally(),
    "messages.apply": lambda face: face.messages.apply("cancel", Filter("live", topic="orders.paid"), by=MINE),
    "messages.cancel": lambda face: face.messages.cancel([*BOTH, (ALONE, "bill"), (PARKED, ""), (WAITING, "bill")]),
    "messages.chain": each(lambda face, which: face.messages.chain(which)),
    "messages.failures": lambda face: face.messages.failures(),
    "messages.run_now": lambda face: face.messages.run_now([(id, "bill") for id in BOTH], by=MINE),
    "messages.publish": refused(lambda face: face.messages.publish("orders.paid", copy_of=UUID(int=99))),
    "messages.list": lambda face: face.messages.list("scheduled"),
    "messages.runs": lambda face: face.messages.runs(),
    "messages.search": lambda face: face.messages.search(key="order:1"),
    "messages.get": each(lambda face, which: face.messages.get(which)),
    "dead.causes": lambda face: face.dead.causes(),
    "dead.discard": lambda face: face.dead.discard(everything=True, by=MINE),
    "dead.list": lambda face: face.dead.list(),
    "dead.revive": lambda face: face.dead.revive(everything=True, by=MINE),
    "dead.get": each(lambda face, which: face.dead.get(which), DEAD),
    "groups.list": lambda face: face.groups.list(),
    "groups.pause": declared(lambda face: face.groups.pause("ship", by=MINE)),
    "groups.resume": declared(lambda face: face.groups.resume("bill", by=MINE)),
    "groups.release": declared(lambda face: face.groups.release("jobs", by=MINE)),
    "groups.retire": declared(lambda face: face.groups.retire("bill", by=MINE)),
    "workers.drain": lambda face: face.workers.drain("node-1", by=MINE),
    "workers.list": lambda face: face.workers.list(),
    "workers.resume": lambda face: face.workers.resume("node-1", by=MINE),
    "schedules.alter": lambda face: face.schedules.alter("weekly", every("6d"), by=MINE),
    "schedules.backfill": lambda face: face.schedules.backfill("nightly", START, START + 25 * HOUR, by=MINE),
    "schedules.between": lambda face: face.schedules.between("weekly", START, START + HOUR),
    "schedules.freeze": lambda face: face.schedules.freeze(everywhere=True, by=MINE),
    "schedules.get": lambda face: face.schedules.get("weekly"),
    "schedules.list": lambda face: face.schedules.list(),
    "schedules.next": lambda face: face.schedules.next("weekly"),
    "schedules.once": lambda face: face.schedules.once(
        f"once.{type(face._face).__name__}", START, face.walked[1], {"who": MINE}, by=MINE
    ),
    "schedules.delete": lambda face: face.schedules.delete(f"once.{type(face._face).__name__}", by=MINE),
    "schedules.pause": lambda face: face.schedules.pause("weekly", by=MINE),
    "schedules.put": lambda face: face.schedules.put("weekly", every("5d"), topic="reports.due", by=MINE),
    "schedules.recent": lambda face: face.schedules.recent(),
    "schedules.resume": lambda face: face.schedules.resume("weekly", by=MINE),
    "schedules.run_times": lambda face: face.schedules.run_times("weekly"),
    "schedules.runs": lambda face: face.schedules.runs("weekly"),
    "schedules.thaw": lambda face: face.schedules.thaw(everywhere=True, by=MINE),
    "schedules.trigger": lambda face: face.schedules.trigger("nightly", by=MINE),
    "inbox.admit": lambda face: face.inbox.admit("evt_1", "stripe"),
    "inbox.dead": marked("dead"),
    "inbox.done": marked("done"),
    "inbox.failed": marked("failed"),
    "inbox.get": lambda face: face.inbox.get("evt_1", "stripe"),
    "inbox.list": lambda face: face.inbox.list(),
    "inbox.once": entered(lambda face: face.inbox.once(f"evt_once_{type(face._face).__name__}", "stripe")),
    "inbox.release": lambda face: face.inbox.release("evt_2", "stripe", by=MINE),
    "leases.acquire": lambda face: face.leases.acquire("reports"),
    "leases.get": lambda face: face.leases.get("reports"),
    "leases.hold": entered(lambda face: face.leases.hold(f"walk_{type(face._face).__name__}")),
    "leases.list": lambda face: face.leases.list(),
    "leases.release": lambda face: face.leases.release("reports", by=MINE),
    "joins.cancel": of_join(lambda face, which: face.joins.cancel(which)),
    "joins.get": of_join(lambda face, which: face.joins.get(which)),
    "joins.list": lambda face: face.joins.list(),
    "joins.members": of_join(lambda face, which: face.joins.members(which)),
    "fanouts.cursors": lambda face: face.fanouts.cursors("etl", "payments"),
    "fanouts.edit": lambda face: face.fanouts.edit("etl", "payments", "a", every="2h", by=MINE),
    "fanouts.list": lambda face: face.fanouts.list(),
    "fanouts.policies": lambda face: face.fanouts.policies("etl", "payments"),
    "fanouts.reset": lambda face: face.fanouts.reset("etl", "payments", "a", by=MINE),
    "fanouts.seek": lambda face: face.fanouts.seek("etl", "payments", to=None, by=MINE),
    "fanouts.run": lambda face: face.fanouts.run("etl", "payments", by=MINE),
    "fanouts.get": lambda face: face.fanouts.get("etl", "payments"),
    "queue.abandon": held(lambda queue, item: queue.abandon(item)),
    "queue.ack": held(lambda queue, item: queue.ack(item)),
    "queue.claim": lambda face: face.queue("jobs").claim(),
    "queue.declare": lambda face: face.queue("jobs").declare(),
    "queue.extend": held(lambda queue, item: queue.extend(item)),
    "queue.fail": held(lambda queue, item: queue.fail(item, error=MINE)),
    "queue.item": held(lambda queue, item: queue.item(item.token)),
    "queue.items": first_item,
    "queue.reap": lambda face: face.queue("jobs").reap(),
    "queue.wait": lambda face: face.queue("jobs").wait("10ms"),
    "prune": pruned,
}
"""By name, in the order in which they are made: each room's own, with what it needs still there."""

WIRING = {
    "": {
        "consumer",
        "fanout",
        "brokers",  # of the code, and of no database
        "include",
        "intake",
        "message",
        "on",
        "recurring",
        "route",
        "upcaster",
        "options",
        "queue",
        "run",
        "testing",
    }
    | {"worker", "close"},
    "queue": {"group", "topics"},
}
"""What reads and writes nothing itself, or is what the calls above are made of; ``worker`` has a test of its own."""
