"""One driver is enough, whichever it is: the other is never imported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mainspring.storage.postgres.driver import DriverName

# Publishes, consumes, and says at the end what was imported on the way.
PROGRAM = """
import asyncio, os, sys

class Uninstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1:]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Uninstalled())

from mainspring import Mainspring

app = Mainspring(os.environ["URL"], schema=os.environ["SCHEMA"], name="shop", auto_migrate=True)
handled = asyncio.Event()

@app.consumer("orders.placed")
async def send_receipt(order: dict) -> None:
    print("receipt", order["id"])
    handled.set()

async def main():
    async with app.worker():
        await app.publish("orders.placed", {"id": 7})
        await asyncio.wait_for(handled.wait(), 60)

asyncio.run(main())
print("imported", *(name for name in ("asyncpg", "psycopg") if name in sys.modules))
"""


def ran(folder: Path, url: str, schema: str, *missing: str) -> "subprocess.CompletedProcess[str]":
    """How the program ended where these packages are not installed."""
    (folder / "program.py").write_text(PROGRAM)
    return subprocess.run(
        [sys.executable, "-W", "error", folder / "program.py", *missing],
        env=os.environ | {"URL": url, "SCHEMA": schema},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.parametrize(("missing", "there"), [("asyncpg", "psycopg"), ("psycopg", "asyncpg")])
def test_an_app_works_with_the_one_driver_that_is_installed(
    postgres_url: str, postgres_schema: str, tmp_path: Path, missing: str, there: str
) -> None:
    ended = ran(tmp_path, postgres_url, postgres_schema, missing)

    assert ended.stdout.splitlines() == ["receipt 7", f"imported {there}"], ended.stderr
    assert ended.returncode == 0


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
def test_a_url_that_names_a_driver_has_no_other_imported(
    postgres_url: str, postgres_schema: str, tmp_path: Path, driver: DriverName
) -> None:
    ended = ran(tmp_path, postgres_url.replace("://", f"+{driver}://"), postgres_schema)

    assert ended.stdout.splitlines() == ["receipt 7", f"imported {driver}"], ended.stderr


def test_without_any_driver_both_extras_are_named(postgres_url: str, postgres_schema: str, tmp_path: Path) -> None:
    ended = ran(tmp_path, postgres_url, postgres_schema, "asyncpg", "psycopg")

    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == (
        "mainspring.model.errors.MissingExtra: PostgreSQL needs asyncpg or psycopg: "
        "pip install 'mainspring[postgres]' or 'mainspring[psycopg]'"
    )
