"""A worker of a fleet of two databases: `python -m tests.faults.forwarding [URLS, BUG]`.

What is published in the transactions of one is for the other, where each message has an effect. With a bug, messages
are sent under new ids each time, or count as sent before they are stored.
"""

import asyncio
import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID, uuid4

from mainspring import Context, Fleet, Mainspring
from mainspring.app.fleet import destinations
from mainspring.app.fleet.forward import opened
from mainspring.model.message import Delivery, Draft

TOPIC = "orders.moved"
DELAY = 60.0
"""Seconds by which a bug is too early: it is killed before."""


def fleet(urls: Mapping[str, str]) -> Fleet:
    app = Mainspring("fleet://", name="shop", claim_time="2s", grace="1s")

    @app.consumer(TOPIC, transactional=True)
    async def effect(order: int, ctx: Context) -> None:
        await ctx.tx.execute(f"INSERT INTO effect (number) VALUES ({order:d})")

    return Fleet(app, urls)


def unmarked(delivery: Delivery) -> tuple[str, Draft]:
    """Give it another id each time it is sent, so that no mark knows it."""
    name, draft = opened(delivery)
    return name, replace(draft, id=uuid4())


class Hasty(destinations.Destination):
    """Says that messages are stored, and stores them then."""

    async def store(self, group: str, drafts: Mapping[UUID, Draft]) -> Mapping[UUID, object]:
        async def later() -> None:
            await asyncio.sleep(DELAY)
            await destinations.Destination.store(self, group, drafts)

        self.tasks = [*vars(self).get("tasks", ()), asyncio.create_task(later())]
        return dict.fromkeys(drafts)


def main(urls: dict[str, str], bug: str) -> None:
    if bug == "unmarked":
        vars(destinations)["opened"] = unmarked
    elif bug == "hasty":
        vars(destinations)["Destination"] = Hasty
    fleet(urls).run(longest_pause="1s")


if __name__ == "__main__":
    main(*json.loads(sys.argv[1]))
