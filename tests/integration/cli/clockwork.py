"""An application with schedules; copied into the directory of every test that wants some."""

import os
from datetime import date
from typing import Any

from mainspring import Context, Mainspring
from mainspring.timing.rhythm import every

app = Mainspring(
    os.environ.get("SHOP_URL", "sqlite:///clockwork.db"), schema=os.environ.get("SHOP_SCHEMA"), name="clockwork"
)


def in_even_years(day: date) -> bool:
    return day.year % 2 == 0


@app.recurring(every("200ms"))
async def tick(ctx: Context) -> None:
    print(f"tick {ctx.scheduled_for}", flush=True)


@app.recurring("0 9 * * mon-fri", timezone="Europe/Berlin", jitter="30s", overlap="queue", holidays="2026-12-25")
async def daily_report(_payload: Any) -> None:
    pass


@app.recurring("0 12 13 * fri", timezone="America/New_York")
async def unlucky(_payload: Any) -> None:
    raise RuntimeError("as expected\non such a day")


@app.recurring("@yearly", holidays=in_even_years)
async def odd(_payload: Any) -> None:
    pass


@app.consumer("newsletter")
async def send_newsletter(_payload: Any) -> None:
    pass
