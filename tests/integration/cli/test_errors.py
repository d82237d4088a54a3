"""Whatever is wrong is said in one line that tells what to write; the exit code is 2."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mainspring.cli.errors import report
from tests.integration.cli.shell import COMMAND, Shell, line_with, stop

APP = ("--app", "shop:app")
ID = "01890000-0000-7000-8000-000000000000"

REFUSED = [
    (["mesages", "list"], 'Unknown command "mesages". Did you mean "messages"?'),
    (["messages", "lst"], 'Unknown command "lst". Did you mean "list"?'),
    (["messages", "list", "--sate", "dead"], "Unknown option: --sate. Did you mean --state?"),
    (["messages", "list", "--state", "gone"], 'Invalid value "gone" for --state.'),
    (["messages", "list", "--limit", "0", *APP], "--limit 0 must be 1 or more"),
    (["messages", "show"], "ID is missing. See `mainspring messages show --help`"),
    (["messages", "show", "42", *APP], "ID takes an id, as shown in lists, not '42'"),
    (["dead", "show", "123", *APP], "not '123': for example 01890a5d-ac96-774b-bcce-b302099a8057"),
    (["messages", "list", "-n", "x", *APP], "-n takes a whole number, not 'x': for example -n 4"),
    (["publish", "t", "--at", "noon", *APP], "--at takes a time, not 'noon': for example --at 2030-01-31T09:00"),
    (["demo", "--seconds", "x"], "--seconds takes a number, not 'x': for example --seconds 2.5"),
    (
        ["worker", "shop:app", "--processes", "x"],
        "--processes takes a whole number, not 'x': for example --processes 4",
    ),
    (["worker", "late:app"], "importing late failed: ZeroDivisionError: division by zero (late.py:2)"),
    (["messages", "show", ID, *APP], f"there is no message {ID}"),
    (["messages", "cancel", *APP], "give a message's ID, or --topic and --key together"),
    (["messages", "cancel", ID, "--key", "k", *APP], "give a message's ID, or --topic and --key together"),
    (["messages", "cancel", "--topic", "t", *APP], "give a message's ID, or --topic and --key together"),
    (["messages", "list"], "give --app MODULE:APP or --url URL, or set MAINSPRING_URL"),
    (["messages", "list", *APP, "--url", "sqlite:///x.db"], "--app and --url name two databases"),
    (["messages", "list", *APP, "--schema", "x"], "--namespace and --schema require --url"),
    (["messages", "list", "--url", "sqlite:///no.db"], "`mainspring migrate --url sqlite:///no.db` creates it"),
    (["messages", "list", "--url", "memory://"], "exists in one process only"),
    (["messages", "list", "--url", "oracle://x"], "'oracle' is not a database Mainspring knows"),
    (["dead", "show", ID, *APP], f"message {ID} has no dead letter"),
    (["dead", "revive", *APP], "give an ID, or --group, --topic, --error, --cause or --all"),
    (["dead", "revive", ID, *APP], f"message {ID} has no dead letter"),
    (["dead", "revive", "--all", "--group", "g", *APP], "--all selects every dead letter"),
    (["dead", "revive", ID, "--error", "x", *APP], "an ID selects one message"),
    (["dead", "revive", "--all", "--payload", "1", *APP], "give its ID"),
    (["dead", "discard", ID, "--group", "send_receipt", *APP], "no dead letter of group send_receipt"),
    (["groups", "pause", "send_receit", *APP], "there is no group 'send_receit'"),
    (["groups", "retire", "nobody", *APP], "there is no group 'nobody'"),
    (["publish", *APP], "TOPIC is missing"),
    (["publish", "a..b", *APP], "has an empty segment"),
    (["publish", "t", '{"a": tru}', *APP], "Expecting value at line 1, column 7, near"),
    (["publish", "t", "NaN", *APP], "NaN is not allowed"),
    (["publish", "t", "-", *APP], "stdin was empty"),
    (["publish", "t", "[" * 100_000, *APP], "nested too deeply"),
    (["publish", "t", "1", "2", *APP], "unexpected: 2."),
    (["publish", "t", "--dely", "5s", *APP], "there is no option --dely"),
    (["publish", "t", "--delay", "5", *APP], "delay='5' is not a duration"),
    (["publish", "t", "--header", "origin", *APP], "--header 'origin' must be NAME=VALUE"),
    (["publish", "t", f'"{"x" * 100_000}{"y" * 31_000}"', "--app", "small:app"], "over the limit of 1,000"),
    (
        ["publish", "typed.orders", "[]", "--app", "typed:app"],
        "It must be dict[str, int]: change the payload, or pass --no-validate",
    ),
    (["sql", "--schema", "My-Schema"], "schema='My-Schema' must be"),
    (["demo", "--seconds", "0"], "--seconds 0 must be between 1 and 3600"),
    (["demo", "--file", "shop.py"], "--file shop.py exists: name a new file"),
    (["worker"], "no application given: write MODULE:APP"),
    (["worker", "shop"], "'shop' does not name an app: write MODULE:APP, such as shop:app"),
    (["worker", "shop.py:app"], "is a path: write the module's name, such as shop:app"),
    (["worker", "shop.app"], "'shop.app' does not name an app: write MODULE:APP, such as shop:app"),
    (["worker", "shop:app", "--log-level", "LOUD"], "--log-level 'LOUD' is not one of debug, info, warning, error"),
    (["prune", "--url", "sqlite:///shop.py"], "this asks for confirmation, and there is no terminal: pass --yes."),
    (["worker", "nowhere:app"], "there is no module 'nowhere'"),
    (["worker", "shop:ap"], "module shop has no 'ap'. Write shop:app"),
    (["worker", "shop:not_an_app"], "shop:not_an_app is of type dict, not a Mainspring app. Write shop:app"),
    (["worker", "empty:thing"], "Write the name of a Mainspring(…) in module empty"),
    (["worker", "needs_more:app"], "No module named 'surely_not_installed' (needs_more.py:1)"),
    (["worker", "syntax:app"], "importing syntax failed: SyntaxError:"),
    (["worker", "divides:app"], "importing divides failed: ZeroDivisionError: division by zero (divides.py:2)"),
    (["worker", "shop:app", "--group", "send_receit"], "Did you mean 'send_receipt'?"),
    (["worker", "shop:app", "--log-level", "INFO", "--group", "send_receit"], "Did you mean 'send_receipt'?"),
    (["worker", "small:app"], "no consumer is registered"),
    (["declare", "small:app"], "small:app has no consumers"),
    (["declare", "small:app", "--json"], "small:app has no consumers"),
]


MODULES = {
    "empty": "thing = None\n",
    "typed": (
        "from mainspring import Mainspring\napp = Mainspring('sqlite:///shop.db', name='typed')\n"
        "@app.consumer('typed.orders')\nasync def take(order: dict[str, int]) -> None: ...\n"
    ),
    "needs_more": "import surely_not_installed\n",
    "syntax": "def broken(:\n",
    "divides": "zero = 0\nvalue = 1 / zero\n",
    "late": "def __getattr__(name):\n    return 1 / 0\n",
    "small": "from mainspring import Mainspring\n\napp = Mainspring('sqlite:///small.db', payload_limit=1000)\n",
}


def test_a_mistake_is_told_in_one_line(shell: Shell) -> None:
    for name, text in MODULES.items():
        (shell.directory / f"{name}.py").write_text(text)

    answers = shell.several(*(arguments for arguments, _ in REFUSED))

    for (arguments, said), answer in zip(REFUSED, answers, strict=True):
        assert said in answer.complaint, arguments
        assert answer.out == "", arguments


@pytest.mark.parametrize("arguments", [["mesages", "list"], ["messages", "list"], ["worker", "nowhere:app"]])
def test_a_mistake_ends_the_process_with_2(shell: Shell, arguments: list[str]) -> None:
    assert shell.anew(*arguments).complaint


def test_debug_shows_the_traceback_as_well(shell: Shell) -> None:
    ended = shell("messages", "list", "--debug")

    assert ended.code == 2
    assert "Traceback" in ended.err
    assert ended.err.splitlines()[-1].startswith("error: no database given: ")


def test_no_traceback_can_steer_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    report(ValueError("\x1b]0;owned\x07"), debug=True)

    told = capsys.readouterr().err
    assert "]0;owned" in told
    assert not {"\x1b", "\x07"} & set(told)


def test_what_nobody_expected_is_one_line_too(shell: Shell) -> None:
    (shell.directory / "shop.db").mkdir()

    ended = shell("messages", "list", "--app", "shop:app")

    assert ended.code == 2
    assert "Traceback" not in ended.err


def test_a_refused_command_creates_no_file(shell: Shell) -> None:
    shell("publish", "orders.placed", "--url", "sqlite:///new.db")

    assert not (shell.directory / "new.db").exists()


def test_a_password_is_not_repeated(shell: Shell) -> None:
    ended = shell("messages", "list", "--url", "postgresql://shop:s3cret@127.0.0.1:1/shop")

    assert ended.complaint
    assert "s3cret" not in ended.err


@pytest.mark.parametrize("missing", ["cyclopts", "rich"])
def test_without_the_extra_one_line_says_how_to_get_it(tmp_path: Path, missing: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"import sys\nsys.modules[{missing!r}] = None\n")
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]

    ran = subprocess.run(
        COMMAND,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 2
    assert ran.stderr == f"mainspring: the command needs {missing}: pip install 'mainspring[cli]'\n"
    assert ran.stdout == ""


def test_ctrl_c_ends_quietly_with_130(shell: Shell) -> None:
    (shell.directory / "waits.py").write_text("import time\nprint('importing', flush=True)\ntime.sleep(30)\n")
    with shell.started("declare", "waits:app", anew=True) as process:
        line_with(process, "importing")

        ended = stop(process, signal.SIGINT)

    assert (ended.code, ended.out, ended.err) == (130, "", "")


def test_a_reader_that_has_had_enough_is_no_failure(shell: Shell) -> None:
    command = f"{sys.executable} -m mainspring sql --dialect sqlite | head -n 1"

    ran = subprocess.run(command, shell=True, env=shell.environment, capture_output=True, text=True, check=True)

    assert ran.stdout == "BEGIN IMMEDIATE;\n"
    assert ran.stderr == ""


def test_help_lists_the_commands_and_version_is_one_line(shell: Shell) -> None:
    helped, versioned = shell("--help"), shell("--version")

    for name in (
        "worker",
        "declare",
        "migrate",
        "sql",
        "health",
        "doctor",
        "publish",
        "messages",
        "dead",
        "groups",
        "schedules",
        "cron",
        "prune",
        "demo",
    ):
        assert f"│ {name} " in helped.out
    assert helped.code == versioned.code == 0
    assert versioned.out.count("\n") == 1
