"""A right request for every route that changes something."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from mainspring.dashboard.api import TABLE
from mainspring.dashboard.route import Route
from mainspring.model.join import Join
from mainspring.model.message import Draft
from tests.dashboard.scene import Scene

CHANGING: tuple[Route, ...] = tuple(route for route in TABLE if route.changes and route.role == "operator")
"""All of them but logging in, which nobody is yet known for, and logging out, which viewers do, too."""
NO_SUCH = "01890a5d-ac96-774b-bcce-b302099a8057"
RECEIVED: Mapping[str, str] = {"group": "shop", "source": "billing", "message_id": "order/7?&"}
"""A message of the inbox; its id is any text."""


async def asked(scene: Scene, route: Route) -> tuple[str, Mapping[str, Any]]:
    """The path and the body of a request that does something here."""
    path, body = route.path, dict(_BODIES[route.path])
    if route.path.startswith("/api/messages/{id}"):
        path = path.replace("{id}", scene.waiting[0] if route.path.endswith("cancel") else scene.dead[0])
    elif route.path == "/api/bulk/{id}/stop":
        path = path.replace("{id}", await _bulk(scene))
    elif route.path.startswith("/api/joins/{id}"):
        path = path.replace("{id}", str(await open_join(scene)))
    elif route.path.startswith("/api/inbox/"):
        await scene.app.inbox.admit(RECEIVED["message_id"], RECEIVED["source"], group=RECEIVED["group"])
    elif route.path.startswith("/api/workers/"):
        body["name"] = "porter"
    elif route.path == "/api/schedules/resume":
        await scene.app.schedules.pause("weekly")
    elif route.path == "/api/schedules/thaw":
        await scene.app.schedules.freeze()
    return path, body


async def open_join(scene: Scene) -> UUID:
    """A join of two messages that wait."""
    storage = await scene.app._connection.storage("the test")
    drafts = [Draft(uuid4(), "orders.placed", b'{"order": 8}', group="ship", delay=timedelta(hours=1)) for _ in "ab"]
    join = Join(uuid4(), then=Draft(uuid4(), "orders.packed", b"null", group="ship"))
    await storage.mailbox.join(join, drafts)
    return join.id


async def _bulk(scene: Scene) -> str:
    async with scene.operator() as client:
        wish = {"action": "run_now", "filter": {"state": "scheduled", "topic": "no.such"}}
        return str((await client.post("/api/bulk", json=wish)).json()["id"])


_BODIES: dict[str, Mapping[str, Any]] = {
    "/api/messages": {"topic": "orders.placed", "payload": {"order": 7}},
    "/api/messages/{id}/cancel": {"reason": "ordered twice"},
    "/api/messages/{id}/retry": {},
    "/api/messages/{id}/replace": {"payload": {"card_number": "4000"}},
    "/api/messages/{id}/discard": {},
    "/api/bulk": {"action": "revive", "filter": {"state": "dead"}},
    "/api/bulk/{id}/stop": {},
    "/api/brokers/check": {},
    "/api/consumers/pause": {"group": "ship", "reason": "inventory"},
    "/api/consumers/resume": {"group": "ship"},
    "/api/consumers/release": {"group": "ship"},
    "/api/schedules/pause": {"name": "weekly", "reason": "holidays"},
    "/api/schedules/resume": {"name": "weekly"},
    "/api/schedules/trigger": {"name": "weekly"},
    "/api/schedules/create": {"name": "monthly", "rhythm": "0 9 1 * *", "consumer": "ship"},
    "/api/schedules/alter": {"name": "weekly", "rhythm": "every 2h"},
    "/api/schedules/backfill": {
        "name": "weekly",
        "start": "2026-11-16T00:30:00Z",
        "end": "2026-11-16T02:30:00Z",
    },
    "/api/schedules/delete": {"name": "weekly"},
    "/api/schedules/freeze": {"reason": "moving"},
    "/api/schedules/thaw": {},
    "/api/joins/{id}/cancel": {"reason": "ordered twice"},
    "/api/inbox/release": RECEIVED,
    "/api/leases/release": {"name": "nightly", "reason": "stuck"},
    "/api/fanouts/edit": {"topic": "mail.sync", "work": "inbox", "every": "2h"},
    "/api/fanouts/reset": {"topic": "mail.sync", "work": "inbox"},
    "/api/fanouts/seek": {"topic": "mail.sync", "work": "inbox", "to_start": True},
    "/api/fanouts/run": {"topic": "mail.sync", "work": "inbox"},
    "/api/workers/drain": {"reason": "deploy"},
    "/api/workers/resume": {},
}
