"""What a worker logs: as text or as JSON, with the message it is about, and without anybody's secret."""

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli.shell import Ended, Shell, line_with, stop

APP = ("--app", "vault:app")
CANARY = "canary-4242"
MESSAGES = {
    "cards.charge": {"number": CANARY, "owner": 7},
    "cards.block": {"number": CANARY, "owner": 7},
    "cards.print": {"number": CANARY, "owner": 7},
    "accounts.open": {"iban": CANARY, "balance": CANARY},
}
UNREADABLE = {"number": 7, "owner": CANARY}


@pytest.fixture
def vault(shell: Shell) -> Shell:
    shutil.copy(Path(__file__).parent / "vault.py", shell.directory / "vault.py")
    return shell


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Ended]:
    """What a worker has said that failed at everything, by the format of its log."""
    return cache(lambda form: _handle_all(tmp_path_factory.mktemp(form), form))


def _handle_all(directory: Path, form: str) -> Ended:
    for name in ("shop.py", "vault.py"):
        shutil.copy(Path(__file__).parent / name, directory)
    vault = Shell(directory)
    with vault.started("worker", "vault:app", "--log-level", "debug", "--log-format", form) as worker:
        line_with(worker, "ready")
        published = [(topic, json.dumps(payload)) for topic, payload in MESSAGES.items()]
        published.append(("cards.charge", json.dumps(UNREADABLE)))
        for each in vault.several(
            *(("publish", *message, "--correlation-id", "till:3", "--no-validate", *APP) for message in published)
        ):
            assert each.code == 0, each.err
        while len(vault("dead", "list", *APP, "--json").json) < 4:
            pass
        return stop(worker)


def read(ended: Ended) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ended.err.splitlines()]


def test_lines_of_json_say_which_message_they_are_about(logged: Callable[[str], Ended]) -> None:
    ended = logged("json")

    assert ended.code == 0
    said = {(each["logger"], each["message"]): each for each in read(ended)}
    charging, blocking = said["vault", "charging"], said["vault", "blocking"]
    assert (charging["group"], charging["topic"], charging["attempt"]) == ("charge", "cards.charge", 1)
    assert (charging["correlation_id"], charging["level"], charging["owner"]) == ("till:3", "info", 7)
    assert (blocking["group"], blocking["topic"]) == ("block", "cards.block")
    printing = said["vault", "printing"]
    assert (printing["group"], printing["topic"], printing["correlation_id"]) == ("print_card", "cards.print", "till:3")
    assert {each["worker"] for each in said.values()} == {charging["worker"]}
    assert charging["worker"].count(":") == 2
    assert {len(each["message_id"]) for each in (charging, blocking, printing)} == {36}


def test_the_line_of_a_failure_names_its_message(logged: Callable[[str], Ended]) -> None:
    failures = [each for each in read(logged("json")) if each["logger"] == "mainspring.handlers"]
    assert failures
    assert {each["group"] for each in failures} <= {"charge", "block", "open_account"}
    for each in failures:
        assert each["message"].startswith(f"{each['group']}: message {each['message_id']} failed, attempt 1, ")


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_line_holds_what_is_in_a_message(logged: Callable[[str], Ended], form: str) -> None:
    ended = logged(form)

    assert "failed, attempt 1, buried as a dead letter" in ended.err
    assert CANARY not in ended.err + ended.out


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("driver", ["postgresql", "postgresql+psycopg"])
def test_no_line_holds_the_password_of_a_database_that_is_away(vault: Shell, form: str, driver: str) -> None:
    vault.environment["VAULT_URL"] = f"{driver}://vault:{CANARY}@127.0.0.1:1/vault?password={CANARY}"

    with vault.started("worker", "vault:app", "--log-level", "debug", "--log-format", form) as worker:
        assert worker.stderr is not None
        said = ""
        while said.count("cannot be reached") < 2:  # after the first it may not yet listen to signals
            said += worker.stderr.readline()
        ended = stop(worker)

    assert ended.code == 0
    assert CANARY not in said + ended.err + ended.out


def test_several_processes_and_their_parent_all_log_json(vault: Shell) -> None:
    with vault.started("worker", "vault:app", "--processes", "2", "--log-format", "json") as worker:
        line_with(worker, "ready")
        line_with(worker, "ready")
        ended = stop(worker)

    said = [each["message"] for each in read(ended) if each["message"].startswith("SIGTERM")]
    assert sorted(said) == [
        "SIGTERM: stopping all processes",
        "SIGTERM: stopping when handlers have finished",
        "SIGTERM: stopping when handlers have finished",
    ]


def test_an_application_with_logging_of_its_own_is_told_how_to_have_json(vault: Shell) -> None:
    (vault.directory / "loud.py").write_text(
        "import logging\n\nfrom vault import app\n\nlogging.basicConfig(format='LOUD %(message)s', level='INFO')\n"
    )

    with vault.started("worker", "loud:app", "--log-format", "json") as worker:
        line_with(worker, "ready")
        ended = stop(worker)

    assert "LOUD --log-format json has no effect, since the application has set up its own logging" in ended.err
    assert "LOUD SIGTERM" in ended.err
