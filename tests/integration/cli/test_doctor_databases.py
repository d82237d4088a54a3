"""``mainspring doctor`` on databases that answer and are not well."""

import asyncio
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

from mainspring import Mainspring
from mainspring.app.observe.doctor import of_app
from mainspring.timing.clock import HandClock
from tests.integration.cli.shell import Ended, Shell
from tests.services.pgbouncer import pgbouncer


def _findings(ended: Ended, about: str) -> list[tuple[str, str, str]]:
    found = [each for each in ended.json["findings"] if each["about"] == about]
    return [(each["grade"], each["summary"], each["advice"]) for each in found]


def test_behind_a_pooler_it_names_the_pooler(
    shell: Shell, postgres_url: str, postgres_schema: str, tmp_path: Path
) -> None:
    shell.environment |= {"SHOP_URL": postgres_url, "SHOP_SCHEMA": postgres_schema}
    shell("migrate", "--app", "shop:app")
    direct = shell("doctor", "shop:app", "--json")
    with pgbouncer(tmp_path, postgres_url) as address:
        shell.environment["SHOP_URL"] = address
        pooled = shell("doctor", "shop:app", "--json")

    assert _findings(direct, "pooler") == [("ok", "none is between: the server itself answers", "")]
    ((grade, said, advice),) = _findings(pooled, "pooler")
    assert (pooled.code, grade) == (0, "note")
    assert said.startswith("a pooler such as PgBouncer is between")
    assert advice.startswith("for low latency, let workers connect to the server itself")
    assert _findings(pooled, "bell")[0][0] == "warning"


async def test_a_clock_that_is_wrong_and_an_index_that_is_gone_are_told_with_what_to_do(tmp_path: Path) -> None:
    app = Mainspring(f"sqlite:///{tmp_path}/shop.db", name="shop")
    await app.migrate()
    async with app:
        await app.publish("orders.placed", 1)
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.execute("DROP INDEX mainspring_delivery_ready")
    connection.close()

    behind = HandClock(datetime.now(UTC) - timedelta(hours=1))
    found = {each.about: each for each in await of_app(app, None, " --url sqlite:///shop.db", behind)}

    assert (found["clock"].grade, found["indexes"].grade, found["log"].grade) == ("error", "error", "ok")
    assert found["clock"].advice.endswith("and: mainspring doctor --mend-clock --url sqlite:///shop.db")
    assert found["indexes"].advice.startswith("CREATE INDEX mainspring_delivery_ready ON mainspring_delivery (")


async def test_a_clock_that_is_far_ahead_is_named_and_mended(shell: Shell, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    await Mainspring(url, name="shop").migrate()
    ahead = int((datetime.now(UTC) + timedelta(hours=1)).timestamp() * 1_000_000)
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.execute("UPDATE mainspring_clock SET at = ?", (ahead,))
    connection.close()

    named = await asyncio.to_thread(shell, "doctor", "--url", url, "--json")
    mended = await asyncio.to_thread(shell, "doctor", "--url", url, "--mend-clock", "--json")
    again = await asyncio.to_thread(shell, "doctor", "--url", url, "--mend-clock", "--json")

    assert (named.code, _findings(named, "clock")[0][0], _findings(named, "mending")) == (1, "error", [])
    assert (mended.code, _findings(mended, "clock")[0][0]) == (0, "ok")
    assert _findings(mended, "mending")[0][1].startswith("the clock of the file was set back by 3,")
    assert _findings(again, "mending")[0][1] == "the clock of the file is not ahead of this host's: unchanged"
