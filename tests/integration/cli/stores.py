"""The fleets that the commands are pointed at; copied into the directory of a test."""

import json
import os
from typing import Any

from mainspring import NO_RETRY, Fleet, Mainspring, RoutedMessage

NAMES = ("acme", "bolt", "cask")
urls: dict[str, str] = json.loads(os.environ.get("STORES", "null")) or {each: f"sqlite:///{each}.db" for each in NAMES}
app = Mainspring("fleet://", name="stores", keep="all")
alone = Mainspring("sqlite:///alone.db", name="alone")


@app.consumer("orders.placed", retry=NO_RETRY)
async def receipt(order: dict[str, Any]) -> None:
    if "jam" in order:
        raise RuntimeError("the printer is jammed")
    print(f"receipt {order['id']}", flush=True)


@app.recurring("0 9 * * *")
async def report(day: Any) -> None:
    print(f"report of {day}", flush=True)


def by_store(message: RoutedMessage) -> str:
    store: str = message.payload["store"]
    return store


async def discover() -> dict[str, str]:
    return urls


async def fail() -> dict[str, str]:
    raise OSError("the registry is down")


fleet = Fleet(app, {} if os.environ.get("STORES") else urls, route=by_store)
found = Fleet(app, discover, home="acme")
homeless = Fleet(app, discover, home="acne")
lost = Fleet(app, fail)
