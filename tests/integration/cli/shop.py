"""The application that the commands are pointed at; copied into the directory of every test."""

import os
import time
from typing import Any

from mainspring import NO_RETRY, Context, Mainspring

app = Mainspring(
    os.environ.get("SHOP_URL", "sqlite:///shop.db"), schema=os.environ.get("SHOP_SCHEMA"), name="shop", keep="all"
)
not_an_app = {"name": "shop"}


@app.consumer("orders.placed", retry=NO_RETRY)
def send_receipt(order: dict[str, Any], ctx: Context) -> None:
    if "jam" in order:
        raise RuntimeError(f"the printer is jammed by {order['jam']}\nand it smokes \x1b[31m")
    if "slow" in order:
        print("started", flush=True)
        ctx.wait_cancelled("30s")
        return
    print(
        f"receipt {order['id']} attempt {ctx.attempt} after {time.time() - ctx.published_at.timestamp():.0f} s",
        flush=True,
    )


@app.consumer("orders.*", group="analytics")
async def count_order(order: Any) -> None:
    pass


@app.consumer("payments.timeout")
async def expire(order: dict[str, Any]) -> None:
    pass
