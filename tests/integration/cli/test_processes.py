"""``worker --processes N``: a parent and its children, as real processes."""

import os
import re
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.integration.cli.shell import PATIENCE, Ended, Shell, Started, line_with, stop

APP = ("--app", "shop:app")
BROKEN = "raise RuntimeError('half deployed')\n"


def ready(worker: Started) -> int:
    """The number of the next child that is ready."""
    found = re.search(r"process (\d+)$", line_with(worker, "worker ready"))
    assert found is not None
    return int(found[1])


def log_line(worker: Started, text: str) -> str:
    """The next line of the log that holds the text."""
    assert worker.stderr is not None
    for line in worker.stderr:
        if text in line:
            return line
    raise AssertionError(f"it ended without logging {text!r}")


def not_the_same_signal(worker: Started) -> None:
    """What follows within a tenth of a second counts as the same signal."""
    with suppress(subprocess.TimeoutExpired):
        worker.wait(0.3)


def test_a_child_that_is_killed_is_replaced_and_work_goes_on(shell: Shell) -> None:
    with shell.started("worker", "shop:app", "--processes", 2, anew=True) as worker:  # its open files are looked at
        first, second = ready(worker), ready(worker)
        os.kill(first, signal.SIGKILL)
        third = ready(worker)
        shell("publish", "orders.placed", '{"id": 7}', *APP)
        handled = line_with(worker, "receipt")
        opened = [Path(each.path).name for each in psutil.Process(worker.pid).open_files()]

        ended = stop(worker)

    assert handled.startswith("receipt 7 attempt 1")
    assert len({first, second, third, worker.pid}) == 4
    assert f"process {first} was killed by SIGKILL; another starts in" in ended.err
    assert opened == []
    assert ended.code == 0


def test_the_first_signal_stops_all_children_in_good_order(shell: Shell) -> None:
    shell.environment["MAINSPRING_GRACE"] = "1h"  # it is not waited out
    with shell.started("worker", "shop:app", "-p", 3) as worker:
        children = {ready(worker) for _ in range(3)}
        groups = {os.getpgid(child) for child in children}

        ended = stop(worker)

    assert ended.code == 0
    assert {int(each) for each in re.findall(r"worker stopped: shop:app, process (\d+)", ended.out)} == children
    assert ended.err.count("SIGTERM: stopping when handlers have finished") == 3
    assert groups == children  # so that a terminal's Ctrl-C does not reach them twice


def test_the_second_signal_stops_them_at_once(shell: Shell) -> None:
    with shell.started("worker", "shop:app", "-p", 2, "--group", "send_receipt") as worker:
        ready(worker), ready(worker)
        shell("publish", "orders.placed", '{"slow": true}', *APP)
        line_with(worker, "started")
        worker.send_signal(signal.SIGTERM)
        log_line(worker, "SIGTERM: stopping all processes")
        not_the_same_signal(worker)
        assert worker.poll() is None

        ended = stop(worker)

    assert ended.code == 0
    assert "SIGTERM: stopping at once" in ended.err


def test_ctrl_c_in_a_terminal_is_one_signal(shell: Shell) -> None:
    ended = shell.on_terminal("worker", "shop:app", "--processes", 2, interrupt_at="worker ready")

    assert ended.code == 0
    assert "stopping all processes" in ended.out
    assert "stopping at once" not in ended.out


def test_children_whose_parent_is_killed_end_by_themselves(shell: Shell) -> None:
    with shell.started("worker", "shop:app", "--processes", 2) as worker:
        children = {ready(worker), ready(worker)}

        worker.kill()
        out, err = worker.communicate(timeout=PATIENCE)  # the children have the same stdout: it ends with the last

    assert {int(each) for each in re.findall(r"worker stopped: shop:app, process (\d+)", out)} == children
    assert err.count("the parent process is gone: stopping when handlers have finished") == 2


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("nowhere:app", "there is no module 'nowhere'"),
        ("broken:app", "importing broken failed: RuntimeError: half deployed (broken.py:1)"),
        ("lazy:app", "no consumer is registered"),
    ],
)
def test_a_mistake_is_told_once_and_not_tried_again(shell: Shell, target: str, said: str) -> None:
    (shell.directory / "broken.py").write_text(BROKEN)
    (shell.directory / "lazy.py").write_text("from mainspring import Mainspring\napp = Mainspring('memory://')\n")

    ended = shell("worker", target, "--processes", 3)

    assert said in ended.complaint
    assert ended.out == ""


def test_what_crashes_before_it_is_under_way_is_given_up(shell: Shell) -> None:
    (shell.directory / "crash.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")

    ended = shell("worker", "crash:app", "--processes", 2)

    assert ended.code == 2
    assert ended.err.count("was killed by SIGSEGV; another starts in") == 4
    assert re.search(r"error: none of 5 processes started; the last one, process \d+ was killed", ended.err)


def test_a_broken_deployment_costs_nobody_else_his_work(shell: Shell) -> None:
    good = (shell.directory / "shop.py").read_text()
    with shell.started("worker", "shop:app", "--processes", 2) as worker:
        first, second = ready(worker), ready(worker)
        (shell.directory / "shop.py").write_text(BROKEN)
        os.kill(first, signal.SIGKILL)
        log_line(worker, "half deployed")
        log_line(worker, "ended with exit code 2; another starts in")
        (shell.directory / "shop.py").write_text(good)
        ready(worker)

        assert psutil.pid_exists(second)
        assert stop(worker).code == 0


def test_when_no_child_can_start_any_more_the_parent_gives_up(shell: Shell) -> None:
    with shell.started("worker", "shop:app", "--processes", 2) as worker:
        children = [ready(worker), ready(worker)]
        (shell.directory / "shop.py").write_text(BROKEN)
        for child in children:
            os.kill(child, signal.SIGKILL)

        out, err = worker.communicate(timeout=PATIENCE)

    ended = Ended(worker.wait(PATIENCE), out, err)
    assert ended.code == 2
    assert ended.err.splitlines()[-1] == "error: no process can start any more"


def test_the_exit_code_tells_when_a_child_did_not_end_well(shell: Shell) -> None:
    with shell.started("worker", "shop:app", "-p", 2, "-g", "send_receipt") as worker:
        children = {ready(worker), ready(worker)}
        for _ in children:
            shell("publish", "orders.placed", '{"slow": true}', *APP)
        line_with(worker, "started"), line_with(worker, "started")
        worker.send_signal(signal.SIGTERM)
        log_line(worker, "SIGTERM: stopping when handlers")
        for child in children:
            os.kill(child, signal.SIGKILL)
        _, err = worker.communicate(timeout=PATIENCE)

    assert worker.returncode == 2
    assert "error: not every process ended well: process" in err


@pytest.mark.parametrize("count", [0, -1, 1001])
def test_a_count_that_cannot_be_meant_is_refused(shell: Shell, count: int) -> None:
    assert f"--processes {count} must be between 1 and 1000" in shell("worker", "shop:app", "-p", count).complaint
