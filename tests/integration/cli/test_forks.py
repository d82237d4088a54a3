"""What a forked command says and does is what a process says and does that starts anew."""

import shutil
from pathlib import Path

import pytest

from tests.integration.cli.conftest import HERE
from tests.integration.cli.shell import Shell

ID = "01890000-0000-7000-8000-000000000000"
APP = ("--app", "shop:app")
COMMANDS = [
    ("--version",),
    ("doctor", "shop:app", "--json"),
    ("migrate", *APP),
    ("publish", "orders.placed", '{"id": 1}', "--id", ID, *APP),
    ("health", "--json", "--url", "sqlite:///nowhere.db"),
    ("cron", "0 9 * * mon-fri", "--timezone", "Asia/Tokyo", "--from", "2026-03-01", "-n", "2"),
    ("messages", "list", "--debug"),
]
"""One of every kind that is started anew nowhere else. Tests with ``anew=True`` start a worker, a dashboard, a command
that is interrupted, one that asks and one that draws on a terminal."""


@pytest.mark.timeout(300)
def test_a_fork_says_and_does_what_a_process_does_that_starts_anew(tmp_path: Path) -> None:
    forked, anew = Shell(tmp_path / "forked"), Shell(tmp_path / "anew")
    for shell in (forked, anew):
        shell.directory.mkdir()
        shutil.copy(HERE / "shop.py", shell.directory)

    for command in COMMANDS:
        said, expected = forked(*command), anew.anew(*command)
        assert said == expected, command

    assert {path.name for path in forked.directory.iterdir()} == {path.name for path in anew.directory.iterdir()}


def test_forks_know_nothing_of_each_other(shell: Shell) -> None:
    (shell.directory / "shop.py").write_text("import os\nprint(os.getpid(), os.environ['SHOP'])\napp = None\n")
    shell.environment["SHOP"] = "first"
    first = shell("declare", "shop:app")
    shell.environment["SHOP"] = "second"
    second = shell("declare", "shop:app")

    (one, said), (other, said_later) = first.out.split(), second.out.split()
    assert (said, said_later) == ("first", "second")
    assert one != other
