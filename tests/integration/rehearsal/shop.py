"""An application that an upgrade leaves as it is, and all that it can read: both releases run this file."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from mainspring import NO_RETRY, Context, Mainspring, MsgpackCodec, Slice, breaker, every, intervals

Handle = Callable[[str, Any, Context], Awaitable[None]]
"""What a handler does: given its group, the payload and the context."""

STATES = ("scheduled", "ready", "retrying", "done", "dead", "cancelled", "parked")
HOURLY = intervals("1h", "1h")


@dataclasses.dataclass
class Order:
    """JSON, as it is by default."""

    number: int
    note: str = ""


@dataclasses.dataclass
class Ticket:
    """MessagePack, in its second version."""

    subject: str


@dataclasses.dataclass(frozen=True, slots=True)
class Shop:
    """The app, and what is called by name."""

    app: Any
    resize: Any
    album: Any
    parcels: Any


def shop(handle: Handle, url: str, *, returns: bool = False, **options: Any) -> Shop:
    """Make the app; with ``returns`` one consumer more, of a topic whose messages were parked until then."""
    app = Mainspring(
        url, name="shop", keep="all", claim_time="2s", idle_poll="100ms", codecs=[MsgpackCodec()], **options
    )
    app.message("orders.placed")(Order)
    app.message("tickets.opened", codec="application/msgpack", version=2)(Ticket)
    consume(app, handle)
    recur(app, handle)

    @app.consumer("photos.resized", retry=HOURLY)
    async def resize(photo: int, ctx: Context) -> None:
        await handle("resize", photo, ctx)

    @app.consumer("albums.published")
    async def album(name: str, ctx: Context) -> None:
        await handle("album", name, ctx)

    if returns:

        @app.consumer("*.arrived")
        async def arrivals(number: int, ctx: Context) -> None:
            await handle("arrivals", number, ctx)

    return Shop(app, resize, album, app.queue("parcels", "parcels.packed", type=int))


def consume(app: Mainspring, handle: Handle) -> None:
    """Register consumers of every kind."""

    @app.consumer(retry=HOURLY)
    async def mail(order: Order, ctx: Context) -> None:
        await handle("mail", order, ctx)

    @app.consumer("orders.#")
    async def books(order: dict[str, Any], ctx: Context) -> None:
        await handle("books", order, ctx)

    @app.consumer()
    async def support(ticket: Ticket, ctx: Context) -> None:
        await handle("support", ticket, ctx)

    @app.consumer("payments.made", ordered=True, rate="1000/1s")
    async def ledger(amount: int, ctx: Context) -> None:
        await handle("ledger", amount, ctx)

    @app.consumer("cards.charged")
    async def charge(card: str, ctx: Context) -> None:
        await handle("charge", card, ctx)

    @app.consumer("labels.printed", retry=NO_RETRY)
    async def labels(label: str, ctx: Context) -> None:
        await handle("labels", label, ctx)

    @app.consumer("faxes.sent", retry=HOURLY, breaker=breaker(failures=2, pause="1h"), concurrency=1)
    async def fax(page: int, ctx: Context) -> None:
        await handle("fax", page, ctx)


def recur(app: Mainspring, handle: Handle) -> None:
    """Register schedules and a fan-out: none is due while the test runs, whatever the hour."""

    @app.recurring(every("30d"), payload="daily")
    async def report(kind: str, ctx: Context) -> None:
        await handle("report", kind, ctx)

    @app.recurring("0 3 * * *", timezone="Europe/Berlin", overlap="queue")
    async def cleanup(ctx: Context) -> None:
        await handle("cleanup", None, ctx)

    @app.fanout("etl", "payments", every="30d", jitter="0s")
    async def tenants() -> AsyncIterator[str]:
        for tenant in ("acme", "globex", "initech"):
            yield tenant

    @tenants.slices(retry=HOURLY)
    async def load(part: Slice, ctx: Context) -> None:
        await handle("load", part.shard, ctx)


async def everything(app: Any, find: Callable[[str], Awaitable[Any]], held: str) -> dict[str, Any]:
    """Read all that the public calls return of a database, as JSON values.

    ``find`` returns a message by its id; ``held`` is the state by which claims that have lapsed are listed.
    """
    stats = getattr(app, "stats", app)  # the earlier release has these calls on the app itself
    found = {state: await app.messages.list(state, limit=500) for state in STATES}
    found["held"] = await app.messages.list(held, limit=500)
    ids = {str(each.message_id) for deliveries in found.values() for each in deliveries}
    read = {
        **found,
        "messages": {id: await find(id) for id in sorted(ids)},
        "runs": await app.messages.runs(limit=500),
        "dead letters": await app.dead.list(limit=500),
        "causes": await app.dead.causes(),
        "groups": await app.groups.list(),
        "workers": await app.workers.list(),
        "schedules": await app.schedules.list(),
        "report": await app.schedules.runs("report"),
        "inbox": await app.inbox.list(),
        "leases": await app.leases.list(),
        "joins": [(each, await app.joins.members(each.id)) for each in await app.joins.list()],
        "fanouts": await app.fanouts.list(),
        "cursors": await app.fanouts.cursors("etl", "payments"),
        "policies": await app.fanouts.policies("etl", "payments"),
        "audit": await app.audit(limit=500),
        "tally": (await stats.tally()).groups,
        "measures": (await stats.measures("24h")).total,
    }
    written: dict[str, Any] = json.loads(json.dumps(read, default=as_json))
    return written


def as_json(value: Any) -> Any:
    """Turn what JSON does not know into what it does."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, bytes):
        return value.hex()
    if dataclasses.is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    return str(value)
