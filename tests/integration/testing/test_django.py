"""A Django ``TestCase`` with the kit in its transaction: nothing is left behind, on SQLite and on PostgreSQL."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

from mainspring import Mainspring
from tests.integration.testing.counting import new_rows, rows_on_postgres, rows_on_sqlite
from tests.services.postgres import new_database

PROJECT = Path(__file__).parent / "django_project"
LABELS = ("parcel_tests", "report_tests")
RAN = "Ran 7 tests"


def _test(database: dict[str, Any], address: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-m", "django", "test", "--keepdb", "--noinput", *LABELS],
        cwd=PROJECT,
        env={
            **os.environ,
            "DATABASE": json.dumps(database),
            "MAINSPRING_URL": address,
            "DJANGO_SETTINGS_MODULE": "settings",
            "PYTHONPATH": str(PROJECT),
        },
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout
    return ran.stdout


def test_a_test_case_on_sqlite_leaves_no_rows(tmp_path: Path) -> None:
    path = str(tmp_path / "shop.db")
    database = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "real.db"), "TEST": {"NAME": path}}
    Mainspring(f"sqlite:///{path}").sync.migrate()
    before = rows_on_sqlite(path)

    output = _test(database, f"sqlite:///{tmp_path}/real.db")

    assert RAN in output
    left = new_rows(before, rows_on_sqlite(path))
    print(f"\nDjango TestCase on SQLite, rows left: {left}")
    assert {"mainspring_delivery", "mainspring_groups", "parcels_order"} <= left.keys()
    assert set(left.values()) == {0}


def test_a_test_case_on_sqlite_in_memory_needs_no_tables_made(tmp_path: Path) -> None:
    database = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "real.db")}

    output = _test(database, f"sqlite:///{tmp_path}/real.db")

    assert RAN in output
    assert not (tmp_path / "real.db").exists()


def test_a_test_case_on_postgresql_leaves_no_rows(postgres_url: str) -> None:
    name = f"kit_{uuid4().hex[:12]}"
    with new_database(postgres_url, name) as url:
        parts = urlsplit(url)
        database = {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": f"not_{name}",
            "HOST": parts.hostname,
            "PORT": parts.port,
            "USER": parts.username,
            "PASSWORD": parts.password or "",
            "TEST": {"NAME": name},
        }
        Mainspring(url).sync.migrate()
        before = rows_on_postgres(url)

        output = _test(database, urlunsplit(parts._replace(path=f"/not_{name}")))

        assert RAN in output
        left = new_rows(before, rows_on_postgres(url))
        print(f"\nDjango TestCase on PostgreSQL, rows left: {left}")
        assert {"mainspring.delivery", "mainspring.groups", "public.parcels_order"} <= left.keys()
        assert set(left.values()) == {0}
