"""The pytest plugin, in projects of its users."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.testing.runs import run_pytest

_OVERRIDING = """
import sqlite3
import pytest
from mainspring import Mainspring

mine = Mainspring("memory://", name="mine")


@pytest.fixture
def mainspring_app():
    return mine


def test_it(mainspring):
    mine.sync.publish("topic", 1)
    assert [sent.payload for sent in mainspring.published("topic")] == [1]


def test_the_next_one_begins_anew(mainspring):
    assert mainspring.published() == []
"""

_TX = """
import sqlite3
import pytest
from mainspring import Mainspring

mine = Mainspring("sqlite:///unused.db", name="mine")


@pytest.fixture
def mainspring_app():
    return mine


@pytest.fixture
def mainspring_tx(tmp_path):
    connection = sqlite3.connect(tmp_path / "mine.db")
    yield connection
    connection.rollback()
    assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    connection.close()


def test_it(mainspring):
    mine.sync.publish("topic", 1)
    assert [sent.payload for sent in mainspring.published("topic")] == [1]
"""

_ASKING = "def test_it(mainspring): ..."


def test_a_fixture_of_ones_own_gives_the_app(project: Path) -> None:
    (project / "test_bakery.py").write_text(_OVERRIDING)

    report = run_pytest(project, "anyio")

    assert report.status == 0, report.output
    assert len(report.seconds) == 2


def test_a_fixture_of_ones_own_gives_the_transaction(project: Path) -> None:
    (project / "test_bakery.py").write_text(_TX)

    report = run_pytest(project, "anyio")

    assert report.status == 0, report.output
    assert not (project / "unused.db").exists()


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("", "the fixture mainspring needs an app"),
        ("mainspring_app = bakery", "is of type module, not an app"),
        ("mainspring_app = bakery:carrier", "is of type dict, not an app"),
        ("mainspring_app = bakery:ap", "does not exist"),
        ("mainspring_app = bakry:app", "is not a module"),
        ("mainspring_app = bakery-app", "does not exist"),
        ("mainspring_app = broken:app", "No module named 'nowhere'"),
    ],
)
def test_an_app_that_cannot_be_found_says_what_to_write(project: Path, option: str, says: str) -> None:
    (project / "test_bakery.py").write_text(_ASKING)
    (project / "broken.py").write_text("import nowhere")

    report = run_pytest(project, "anyio", option)

    assert report.status == 1
    assert says in report.output
    if "nowhere" not in says:
        assert 'write mainspring_app = "shop:app"' in report.output


def test_who_does_not_use_it_pays_nothing() -> None:
    check = (
        "import mainspring.integrations.pytest_plugin, sys; "
        "print([name for name in sys.modules if name.startswith(('mainspring.', 'msgspec'))])"
    )

    ran = subprocess.run([sys.executable, "-c", check], check=True, capture_output=True, text=True)

    assert ran.stdout == "['mainspring.integrations', 'mainspring.integrations.pytest_plugin']\n"
