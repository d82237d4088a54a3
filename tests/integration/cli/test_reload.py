"""`worker --reload`: the worker restarts when a file changes, whatever state it is in."""

from pathlib import Path

import pytest

from mainspring.app.process.reloader import watched
from tests.integration.cli.shell import Shell, line_with, stop

APP = """
from mainspring import Mainspring

app = Mainspring("sqlite:///{database}.db", name="shop")


@app.consumer("orders.placed")
async def {group}(order: dict) -> None: ...
"""


def test_a_changed_file_restarts_the_worker_and_a_broken_one_waits_for_the_next_change(shell: Shell) -> None:
    module = shell.directory / "small.py"
    module.write_text(APP.format(database="one", group="first"))
    with shell.started("worker", "small:app", "--reload", anew=True) as worker:
        assert "first (orders.placed)" in line_with(worker, "groups")

        module.write_text("def")
        assert worker.stderr is not None
        complaint = next(line for line in worker.stderr if "SyntaxError" in line)
        waits = next(line for line in worker.stderr if "starts again when a file changes" in line)
        module.write_text(APP.format(database="one", group="second"))
        mended = line_with(worker, "groups")

        ended = stop(worker)

    assert "importing small failed" in complaint
    assert "ended with exit code 2" in waits
    assert "second (orders.placed)" in mended
    assert ended.code == 0
    assert "mainspring worker stopped: small:app" in ended.out


WRITES = """
import pathlib, time

pathlib.Path("stamp.py").write_text(f"stamp = {time.time_ns()}")
"""


@pytest.mark.parametrize("broken", [False, True])
def test_a_file_that_the_application_writes_does_not_restart_it_for_ever(shell: Shell, broken: bool) -> None:
    module = shell.directory / "small.py"
    module.write_text(WRITES + ("1 / 0" if broken else APP.format(database="one", group="first")))
    with shell.started("worker", "small:app", "--reload", anew=True) as worker:
        assert worker.stderr is not None
        seen: list[str] = []
        for line in worker.stderr:
            seen.append(line)
            if "stamp.py changes whenever the worker starts" in line:
                break
        module.write_text(WRITES + APP.format(database="one", group="second"))
        while "second (orders.placed)" not in line_with(worker, "groups"):
            pass
        ended = stop(worker)

    assert sum("changed: the worker restarts" in line for line in seen) == 2
    assert ended.code == 0


def test_modules_beside_the_configuration_are_watched_from_below_it(shell: Shell) -> None:
    (shell.directory / "pyproject.toml").touch()
    (shell.directory / "mainspring.toml").write_text('app = "small:app"\n')
    module = shell.directory / "small.py"
    module.write_text(APP.format(database="one", group="first"))
    shell.directory = shell.directory / "deep" / "down"
    shell.directory.mkdir(parents=True)
    with shell.started("worker", "--reload", anew=True) as worker:
        assert "first (orders.placed)" in line_with(worker, "groups")
        module.write_text(APP.format(database="one", group="second"))
        assert "second (orders.placed)" in line_with(worker, "groups")
        assert stop(worker).code == 0


@pytest.mark.parametrize(
    ("options", "settings", "complaint"),
    [
        (["--processes", "2"], {}, "--reload restarts one process: omit --processes"),
        (
            [],
            {"MAINSPRING_PRESET": "production"},
            (
                "--reload is for development, and the preset is 'production', set by MAINSPRING_PRESET: omit one of "
                "the two"
            ),
        ),
    ],
)
def test_reloading_is_for_one_process_in_development(
    shell: Shell, options: list[str], settings: dict[str, str], complaint: str
) -> None:
    shell.environment |= settings

    assert shell("worker", "shop:app", "--reload", *options).complaint == complaint


def test_only_files_of_the_application_are_watched(tmp_path: Path) -> None:
    for name in (
        "shop.py",
        "deep/er.py",
        "mainspring.toml",
        "notes.txt",
        ".hidden/a.py",
        "env/lib/b.py",
        "env/pyvenv.cfg",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    assert {str(Path(name).relative_to(tmp_path)) for name in watched(tmp_path)} == {
        "shop.py",
        "deep/er.py",
        "mainspring.toml",
    }
    assert watched(tmp_path / "nowhere") == {}
