"""An app with joins, for the tests of them."""

import threading
from typing import Any

from mainspring import NO_RETRY, Context, JoinOutcome, Mainspring
from tests.integration.app.shop import Seen


class Album:
    """An app that resizes photos and is told when all of an album are done, or that some are not."""

    def __init__(self, url: str, schema: str, **options: Any) -> None:
        self.url = url
        # So long that whatever comes in time was told, and not found by chance.
        self.app = app = Mainspring(url, name="photos", schema=schema, auto_migrate=True, idle_poll="5m", **options)
        self.seen: Seen[tuple[str, JoinOutcome | None]] = Seen()
        self.threads: set[int] = set()

        @app.consumer("resize", retry=NO_RETRY)
        async def resize(number: int) -> None:
            if number < 0:
                raise ValueError(number)

        @app.consumer("shrink", retry=NO_RETRY)
        def shrink(number: int, ctx: Context) -> None:
            self.threads.add(threading.get_ident())

        @app.consumer("finish")
        async def finish(title: str | None, ctx: Context) -> None:
            self.seen.add((f"finish {title}", ctx.joined))

        @app.consumer("apologise")
        def apologise(ctx: Context) -> None:
            self.seen.add(("apologise", ctx.joined))

        self.resize, self.shrink, self.finish, self.apologise = resize, shrink, finish, apologise

    async def live(self) -> list[str]:
        return [each.group for each in await self.app.messages.list()]
