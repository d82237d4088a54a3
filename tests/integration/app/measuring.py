"""Apps on every database, and what Prometheus would read of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from mainspring import Mainspring
from mainspring.model.measures import MeasuresView
from mainspring.storage.contract import Storage

Numbers = dict[tuple[str, tuple[tuple[str, str], ...]], float]
Make = Callable[..., Mainspring]


def maker(engine: str, folder: Path, url: str, schema: str) -> Make:
    """Makes apps on one database of this kind; on memory each has its own."""

    def made(**options: Any) -> Mainspring:
        match engine:
            case "memory":
                return Mainspring("memory://", **options)
            case "sqlite":
                return Mainspring(f"sqlite:///{folder / 'shop.db'}", **options)
            case _:
                return Mainspring(url, schema=schema, auto_migrate=True, **options)

    return made


async def until(condition: Callable[[], Awaitable[bool]], patience: float = 60.0) -> None:
    """Wait for it, looking often."""
    async with asyncio.timeout(patience):
        while not await condition():
            await asyncio.sleep(0.01)


async def until_measured(app: Mainspring, ended: int) -> MeasuresView:
    """What was measured, as soon as so many attempts are among it."""

    async def told() -> bool:
        return (await app.stats.measures("15m")).total.ended >= ended  # the long window has eight times the buckets

    await until(told)
    return await app.stats.measures("2h")


def scraped(text: str) -> Numbers:
    """Every sample by its name and labels."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def of(numbers: Numbers, name: str) -> dict[str, float]:
    """The samples of one name, by the values of their labels in the order of their names."""
    return {
        ",".join(value for _, value in labels): number for (each, labels), number in numbers.items() if each == name
    }


async def storage_of(app: Mainspring) -> Storage:
    return await app._connection.storage("a test")


def reckon(number: int) -> int:
    """Work for a thread or a process, which finds it by its name."""
    return number * number
