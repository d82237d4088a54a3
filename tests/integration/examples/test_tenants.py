"""The example of many databases does what its README says: also when its worker is killed and a database is away."""

import re
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from tests.faults.report import Report
from tests.integration.examples.readme import Session, copied

WORKER = "mainspring worker tenants.shop:fleet"
BURST = "orders?[1-50]"
AWAY, BACK = "mv customers/{} away", "mv away customers/{}"
AUDITED = re.compile(r"(\d+) orders \(acme 52, bolt 51, cask (\d+), dent 50\), (\d+) receipts: 0 lost, .*")

ON_SERVER = """
import sys
import psycopg

name, mode = sys.argv[1:]
with psycopg.connect({server!r}, autocommit=True) as connection:
    connection.execute(f'ALTER DATABASE "{own}_{{name}}" ALLOW_CONNECTIONS {{mode}}')
    if mode == "false":
        ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
        connection.execute(ended, ["{own}_" + name])
"""
"""What takes a database of the server away, and brings it back."""


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Report:
    """Says on the run's last page what was injected and what came of it."""
    return Report(request.node)


@pytest.fixture
def own(postgres_url: str) -> Iterator[str]:
    """How the names of the example's databases on the server begin; they are dropped afterwards."""
    own = f"tenants_{uuid4().hex[:8]}"
    yield own
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for (name,) in connection.execute("SELECT datname FROM pg_database WHERE starts_with(datname, %s)", [own]):
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def follow(session: Session, away: str = AWAY, back: str = BACK) -> str:
    """Do what the page says, and harm what it says while orders are placed; return what came of it."""

    def harm() -> None:
        session.kill(WORKER)
        assert session.run(away.format("cask")).returncode == 0
        session.kill(WORKER)
        assert session.run(back.format("cask")).returncode == 0
        session.kill(WORKER)

    session.follow({BURST: harm})

    # The page itself asks for "0 lost, 0 doubled, 0 elsewhere".
    assert session.typed[-2:] == ["python -m tenants.audit", "python -m pytest --quiet"]
    said = session.run("python -m tenants.audit").stdout
    audited = AUDITED.match(said)
    assert audited is not None, said
    orders, of_cask, receipts = map(int, audited.groups())
    assert orders == receipts == 153 + of_cask
    assert 0 < of_cask <= 50
    kills = session.said[WORKER].count("killed\n")
    assert kills == 3
    return f"kills={kills} away=2 rejected={50 - of_cask} {said.strip()}"


@pytest.mark.timeout(300)
def test_every_order_has_one_receipt_in_its_own_database_while_the_worker_dies_and_one_is_away(
    tmp_path: Path, report: Report
) -> None:
    with copied("tenants", tmp_path) as session:
        report("example of tenants, SQLite", follow(session))


@pytest.mark.timeout(300)
def test_the_same_on_databases_of_postgresql(tmp_path: Path, postgres_url: str, own: str, report: Report) -> None:
    server = postgres_url.rpartition("/")[0]
    away, back = "python access.py {} false", "python access.py {} true"
    renamed = {AWAY.format("bolt"): away.format("bolt"), BACK.format("bolt"): back.format("bolt")}
    url = f"{server.replace('postgresql://', 'postgresql+psycopg://')}/{own}_{{name}}"
    with copied("tenants", tmp_path, renamed, CUSTOMERS_URL=url) as session:
        (session.folder / "access.py").write_text(ON_SERVER.format(server=postgres_url, own=own))
        report("example of tenants, PostgreSQL", follow(session, away, back))

    assert not list(tmp_path.rglob("shop.db"))
