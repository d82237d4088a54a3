"""`worker`: starts, says so, works, and stops in good order."""

import signal
import subprocess
from contextlib import suppress

import pytest

from tests.integration.cli.shell import PATIENCE, Shell, line_with, stop

APP = ("--app", "shop:app")


@pytest.mark.parametrize("anew", [True, False], ids=["anew", "forked"])
def test_a_worker_handles_what_is_published_and_ends_on_sigterm(shell: Shell, anew: bool) -> None:
    with shell.started("worker", "shop:app", anew=anew) as worker:
        ready = line_with(worker, "ready")
        shell("publish", "orders.placed", '{"id": 7}', *APP)
        handled = line_with(worker, "receipt 7")

        ended = stop(worker)

    assert ready == f"mainspring worker ready: shop:app, uvloop, process {worker.pid}\n"
    assert handled.startswith("receipt 7 attempt 1")
    assert (ended.code, ended.out) == (0, f"mainspring worker stopped: shop:app, process {worker.pid}\n")
    assert "SIGTERM: stopping when handlers have finished" in ended.err


def test_a_second_signal_hands_running_work_back_at_once(shell: Shell) -> None:
    with shell.started("worker", "shop:app", "--group", "send_receipt") as worker:
        line_with(worker, "ready")
        shell("publish", "orders.placed", '{"slow": true}', *APP)
        line_with(worker, "started")
        worker.send_signal(signal.SIGTERM)
        assert worker.stderr is not None
        while "SIGTERM: stopping when handlers" not in worker.stderr.readline():
            pass
        # What follows within a tenth of a second counts as the same signal.
        with suppress(subprocess.TimeoutExpired):
            worker.wait(0.3)

        ended = stop(worker, signal.SIGINT)

    assert ended.code == 0
    assert "stopping at once" in ended.err


def test_a_worker_serves_only_the_groups_it_is_told_to(shell: Shell) -> None:
    with shell.started("worker", "shop:app", "--group", "expire", "-g", "analytics") as worker:
        line_with(worker, "ready")
        groups = {each["name"]: each["workers"] for each in shell("groups", "list", *APP, "--json").json}
        ended = stop(worker, signal.SIGINT)

    assert (groups, ended.code) == ({"analytics": 1, "expire": 1}, 0)


def test_health_sees_the_worker(shell: Shell) -> None:
    with shell.started("worker", "shop:app", "--log-level", "warning") as worker:
        line_with(worker, "ready")
        health = shell("health", *APP)
        ended = stop(worker)

    assert health.code == 0
    assert "1 alive" in health.out
    assert ended.err == ""


def test_a_worker_whose_module_configures_logging_is_left_alone(shell: Shell) -> None:
    (shell.directory / "loud.py").write_text(
        "import logging\n\nfrom shop import app\n\nlogging.basicConfig(format='LOUD %(message)s', level='INFO')\n"
    )
    with shell.started("worker", "loud:app") as worker:
        line_with(worker, "ready")
        ended = stop(worker)

    assert worker.wait(PATIENCE) == 0
    assert "LOUD SIGTERM" in ended.err


def test_a_worker_prints_its_database_groups_and_schedules_and_what_it_skips(shell: Shell) -> None:
    (shell.directory / "jobs.py").write_text(
        "from shop import app\n\n\n"
        "@app.recurring('0 9 * * mon-fri', timezone='Europe/Berlin')\nasync def report() -> None: ...\n\n\n"
        "@app.recurring('0 3 * * *')\nasync def sweep() -> None: ...\n"
    )
    app = ("--app", "jobs:app")
    shell("declare", "jobs:app")
    shell("groups", "pause", "send_receipt", "--reason", "the printer\nmoves", *app)
    shell("schedules", "pause", "sweep", *app)

    with shell.started(
        "worker", "jobs:app", *(f"-g{group}" for group in ("send_receipt", "report", "sweep")), "--concurrency", "5"
    ) as worker:
        said = "".join(line_with(worker, word) for word in ("ready", *["  "] * 8))
        stop(worker)

    _, *lines = said.splitlines()
    alone = "no topic: its schedule, or .send"
    assert lines[:3] == [
        "  database   shop.db, tables of mainspring",
        f"  groups     send_receipt (orders.placed), report ({alone}), sweep ({alone})",
        "  at once    5 over all groups",
    ]
    assert lines.pop(3) == "  schedules  report (0 9 * * mon-fri, Europe/Berlin)"
    assert lines[3:5] == [
        "  skipped    group analytics: not named by --group",
        "             group expire: not named by --group",
    ]
    assert lines[5].startswith("             group send_receipt: paused by ")
    assert lines[5].endswith(" (cli): the printer moves")
    assert lines[6].startswith("             schedule sweep: paused by ")
