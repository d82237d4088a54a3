"""What a transaction on PostgreSQL makes of an error that is no Exception."""

import asyncio
from datetime import timedelta

import pytest

from mainspring import Context, Mainspring
from tests.raising.explosives import TEXT, Panic


@pytest.fixture
def app(postgres_url: str, postgres_schema: str) -> Mainspring:
    return Mainspring(postgres_url, name="work", schema=postgres_schema, auto_migrate=True, keep="all")


async def test_a_transaction_in_which_a_base_exception_is_raised_is_undone(app: Mainspring) -> None:
    heard: list[int] = []

    @app.consumer("work", group="work", concurrency=1, retry="none", transactional=True)
    async def work(number: int, ctx: Context) -> None:
        await ctx.publish("heard", number, delay=timedelta())
        if number == 1:
            raise Panic(TEXT)

    @app.consumer("heard", group="ear")
    async def hear(number: int) -> None:
        heard.append(number)

    async with app.worker() as worker:
        await app.publish("work", 1)
        await app.publish("work", 2)
        async with asyncio.timeout(60):
            while len(runs := await app.messages.runs()) < 3 or worker.in_hand:
                await asyncio.sleep(0.01)

    assert sorted((run.group, run.status) for run in runs) == [("ear", "done"), ("work", "dead"), ("work", "done")]
    assert heard == [2]
