"""`--help` of every command, read at 80 columns."""

import re
from itertools import pairwise

import pytest

from tests.integration.cli.shell import Shell

COMMANDS = [
    ["--help"],
    *(
        [name, "--help"]
        for name in (
            "init",
            "worker",
            "declare",
            "migrate",
            "sql",
            "health",
            "doctor",
            "top",
            "publish",
            "cron",
            "prune",
            "demo",
        )
    ),
    *(["messages", name, "--help"] for name in ("list", "show", "cancel")),
    *(["dead", name, "--help"] for name in ("list", "causes", "show", "revive", "discard")),
    *(["groups", name, "--help"] for name in ("list", "pause", "resume", "retire")),
    *(["workers", name, "--help"] for name in ("list", "show", "drain", "resume")),
    ["fleet", "list", "--help"],
    *(["inbox", name, "--help"] for name in ("list", "release")),
    *(["schedules", name, "--help"] for name in ("list", "show", "runs", "pause", "resume", "trigger", "delete")),
    *(["schedules", name, "--help"] for name in ("alter", "backfill", "freeze", "thaw")),
]


@pytest.fixture(scope="module")
def helps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    answers = Shell(tmp_path_factory.mktemp("help")).several(*COMMANDS)
    return {" ".join(command[:-1]): each.out for command, each in zip(COMMANDS, answers, strict=True)}


def test_paragraphs_are_broken_by_the_screen_alone(helps: dict[str, str]) -> None:
    for command, text in helps.items():
        lines = [line.rstrip() for line in text.splitlines()]
        for line, following in pairwise(lines):
            if line and following and not (line + following).startswith(("╭", "│", "╰")):
                first, *_ = following.split()
                assert len(f"{line} {first}") > 80, (command, line)


def test_no_default_is_shown_that_says_nothing(helps: dict[str, str]) -> None:
    for command, text in helps.items():
        assert not re.search(r'\[default: (\(\)|""|None)\]', text), command


def test_an_application_has_one_name_everywhere(helps: dict[str, str]) -> None:
    for command in ("worker", "declare", "doctor", "health", "migrate", "top"):
        assert f"Usage: mainspring {command} [OPTIONS] [MODULE:APP]\n" in helps[command]
        assert re.search(r"│ [* ] +MODULE:APP |│ MODULE:APP ", helps[command]), command
        assert "SPEC" not in helps[command]
        assert "--app MODULE:APP" in helps[command]


def test_the_usage_of_a_command_names_its_arguments(helps: dict[str, str]) -> None:
    assert not [command for command, text in helps.items() if "[ARGS" in text]
    assert "Usage: mainspring doctor [OPTIONS] [MODULE:APP]\n" in helps["doctor"]
    assert "Usage: mainspring publish [OPTIONS] TOPIC [PAYLOAD]\n" in helps["publish"]
