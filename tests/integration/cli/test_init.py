"""`init`: what it writes runs, is kept, and is what systemd, Docker and Compose can read."""

import json
import re
import shlex
import shutil
import subprocess
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from mainspring.cli.init import files
from tests.integration.cli.shell import Shell, line_with, stop
from tests.services.needs import need

INSTRUCTIONS = {"FROM", "ENV", "WORKDIR", "COPY", "RUN", "USER", "CMD"}


@pytest.fixture
def project(tmp_path: Path) -> Shell:
    """Commands in a new directory."""
    place = tmp_path / "Corner Shop"
    place.mkdir()
    return Shell(place)


def test_the_project_handles_its_first_message_without_another_option(project: Shell) -> None:
    written = project("init")
    assert written.code == 0, written.err

    with project.started("worker") as worker:
        groups, schedules = line_with(worker, "groups"), line_with(worker, "schedules")
        project("publish", "orders.placed", '{"order_id": 7, "total": 9.5}')
        handled = line_with(worker, "receipt")
        assert stop(worker).code == 0

    assert "send_receipt (orders.placed)" in groups
    assert "report (every 1m)" in schedules
    assert handled == "receipt for order 7, attempt 1\n"
    assert project("doctor").code == 0
    assert (project.directory / "corner_shop.db").exists()


def test_a_file_that_is_there_is_kept_unless_forced(project: Shell) -> None:
    mine = project.directory / "app.py"
    mine.write_text("mine = True\n")

    first, again = project.several(["init"], ["init"])
    kept = mine.read_text()
    forced = project("init", "--force")

    assert first.out.splitlines()[:2] == ["kept    app.py", "written mainspring.toml"]
    assert not re.search("^written", again.out, re.MULTILINE)
    assert kept == "mine = True\n"
    assert forced.out.splitlines()[0] == "written app.py"
    assert "send_receipt" in mine.read_text()


def test_a_folder_that_cannot_be_written_is_reported(project: Shell) -> None:
    (project.directory / "taken").write_text("")

    assert "taken" in project("init", "taken").complaint


def test_a_named_folder_is_created(project: Shell) -> None:
    made = project("init", "store")

    assert "Next: cd store && mainspring worker --reload" in made.out
    assert (project.directory / "store" / "store-worker.service").exists()


def test_a_named_folder_with_a_space_can_be_pasted(project: Shell) -> None:
    assert "Next: cd 'my shop' && mainspring worker --reload" in project("init", "my shop").out


def test_the_password_that_compose_reads_is_in_no_image(project: Shell) -> None:
    project("init")

    assert "POSTGRES_PASSWORD" in (project.directory / "compose.yaml").read_text()
    assert ".env*" in (project.directory / ".dockerignore").read_text().splitlines()


def test_systemd_accepts_the_unit(project: Shell) -> None:
    analyse = shutil.which("systemd-analyze")
    need(analyse, "systemd-analyze", "install systemd")
    project("init")
    unit = project.directory / "corner_shop-worker.service"

    verified = subprocess.run(
        [str(analyse), "verify", "--man=no", str(unit)], check=False, capture_output=True, text=True, timeout=60
    )

    said = [line for line in verified.stderr.splitlines() if unit.name in line]
    assert said == [], verified.stderr
    assert f"WorkingDirectory={project.directory}\n" in unit.read_text()


def test_compose_starts_a_worker_after_the_migration_on_a_healthy_database(tmp_path: Path) -> None:
    need(find_spec("yaml"), "PyYAML", "pip install pyyaml")
    yaml: Any = import_module("yaml")
    services = yaml.safe_load(files(tmp_path / "shop")["compose.yaml"])["services"]

    assert set(services) == {"database", "migrate", "worker"}
    assert services["migrate"]["command"] == ["mainspring", "migrate"]
    assert services["migrate"]["depends_on"] == {"database": {"condition": "service_healthy"}}
    assert services["worker"]["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}
    assert services["worker"]["environment"] == {
        "MAINSPRING_URL": "postgresql://shop@database/shop",
        "PGPASSWORD": "${POSTGRES_PASSWORD:-change-me}",
    }
    assert services["database"]["environment"]["POSTGRES_PASSWORD"] == "${POSTGRES_PASSWORD:-change-me}"


def test_the_image_runs_the_worker_in_place_of_a_shell(project: Shell) -> None:
    text = files(project.directory)["Dockerfile"]
    steps = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]

    assert {name for name, _ in steps} == INSTRUCTIONS
    assert steps[0][0] == "FROM"
    # A list, not text: the worker is the process that gets the signals.
    assert json.loads(steps[-1][1]) == ["mainspring", "worker"]
    (install,) = [shlex.split(rest) for name, rest in steps if name == "RUN" and "pip install" in rest]
    assert install[-1] == "mainspring[cli,postgres,fast]"
