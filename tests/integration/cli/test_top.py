"""`top`: a live picture on a terminal of any size, and one look elsewhere."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
import pytest
from rich.console import Console

from mainspring.cli.top.picture import Failing, GroupLine, Picture, Upcoming
from mainspring.cli.top.view import draw, rate, span, sparkline
from tests.integration.cli.shell import PATIENCE, Shell, line_with, stop
from tests.services.cluster import Cluster
from tests.services.forks import forks
from tests.services.postgres import private_server

APP = ("--app", "shop:app")
NOON = datetime(2026, 11, 16, 12, 0, 3, tzinfo=UTC)
IDLE = GroupLine("idle", "served", 0, 0, 0, 0, None, 0.0, 0.0, None)
BUSY = GroupLine(
    "charge_card", "tripped", 100_000, 0, 2, 31, timedelta(hours=3, minutes=12), 412.3, 3.1, 0.21, (0, 1, 5, 10), 4
)
PICTURE = Picture(
    app="shop",
    database="postgresql://shop@db.example.com/shop",
    now=NOON,
    health="degraded",
    reasons=("12 ready for longer than 5m",),
    workers=3,
    in_hand=42,
    draining=1,
    parked=7,
    cap=100_000,
    groups=(BUSY, IDLE),
    upcoming=(Upcoming("daily_report", NOON + timedelta(seconds=192), "At 09:00"),),
    failures=(Failing(NOON - timedelta(seconds=3), "charge_card", UUID(int=7), "failed", 2, "Declined: \x1b[31mno"),),
)


def seen(picture: Picture, width: int, height: int, *, held: bool = False, trouble: str = "") -> list[str]:
    """The frame, line by line, as a terminal without colours has it."""
    console = Console(width=width, height=height, color_system=None, legacy_windows=False, force_terminal=True)
    with console.capture() as capture:
        console.print(draw(picture, width, height, held=held, trouble=trouble))
    lines = capture.get().splitlines()
    assert len(lines) == height
    assert all(len(line) <= width for line in lines)
    return [line.rstrip() for line in lines]


def words(line: str) -> str:
    """What stands in a line, apart from its frame."""
    return " ".join(line.strip("│").split())


def test_a_wide_terminal_shows_all_there_is() -> None:
    lines = seen(PICTURE, 132, 14)

    assert words(lines[0]) == (
        "mainspring top shop postgresql://shop@db.example.com/shop degraded 3 workers, 1 draining 42 in hand "
        "12:00:03 UTC"
    )
    assert words(lines[2]) == "group state ready running done/s fail/s oldest dead p95 lapsed last 5 minutes"
    assert words(lines[3]) == "charge_card tripped 100,000+ 2 412 3.1 3h 12m 31 210 ms 4 ▁▄█"
    assert words(lines[4]) == "idle 0 0 · · · 0 · 0"
    assert "7 messages parked, no group subscribes" in lines[5]
    text = "\n".join(lines)
    assert "daily_report" in text
    assert "in 3m 12s" in text
    assert "12 ready for longer than 5m" in text
    assert "3s ago" in text
    assert lines[-1] == " q quit   p pause"


def test_nothing_that_is_stored_steers_the_terminal() -> None:
    assert "\x1b" not in "\n".join(seen(PICTURE, 132, 14))
    assert any("Declined: [31mno" in line for line in seen(PICTURE, 132, 14))


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (90, "group state ready running done/s fail/s oldest dead p95 lapsed"),
        (80, "group state ready running done/s fail/s oldest dead"),
        (60, "group state ready running done/s fail/s"),
        (44, "group state ready done/s"),
    ],
)
def test_a_narrow_terminal_has_fewer_columns(width: int, columns: str) -> None:
    assert words(seen(PICTURE, width, 20)[2]) == columns


def test_where_every_group_is_served_no_column_says_so() -> None:
    assert "state" not in seen(replace(PICTURE, groups=(IDLE,)), 80, 20)[2]


def test_of_more_groups_than_there_is_room_for_the_busiest_are_shown() -> None:
    crowd = (*(replace(IDLE, name=f"idle{number:02d}") for number in range(40)), BUSY)

    lines = seen(replace(PICTURE, groups=crowd), 80, 16)

    shown = [
        line.strip("│").split()[0] for line in lines[3:] if re.match(r"│ (idle|charge)", line) and "ago" not in line
    ]
    hidden = re.search(r"groups \((\d+) quieter not shown\)", lines[1])
    assert hidden is not None
    assert "charge_card" in shown
    assert len(shown) + int(hidden[1]) == 41


@pytest.mark.parametrize(("width", "height"), [(20, 5), (30, 8), (200, 60), (80, 3)])
def test_a_terminal_of_any_size_is_drawn_on(width: int, height: int) -> None:
    assert "mainspring" in seen(PICTURE, width, height)[0]


@pytest.mark.parametrize("width", [1, 2, 5, 10, 16, 20, 25, 40])
@pytest.mark.parametrize("height", [1, 2, 4, 24])
def test_no_terminal_is_too_small(width: int, height: int) -> None:
    crowd = replace(PICTURE, groups=(replace(BUSY, name="漢字" * 20), *PICTURE.groups))

    for picture in (crowd, replace(PICTURE, groups=()), replace(PICTURE, upcoming=(), failures=(), reasons=())):
        seen(picture, width, height, trouble="gone")


def test_on_twenty_columns_the_most_important_is_still_said() -> None:
    lines = [words(line) for line in seen(PICTURE, 20, 24)]

    assert lines[0] == "mainspring degraded…"
    assert lines[2:5] == ["group ready", "charge… 100,000+", "idle 0"]
    assert any(line.startswith("dail") and line.endswith("in 3m 12s") for line in lines)
    assert any(line.startswith("charg") and "Decl" in line for line in lines)


def test_what_is_not_there_is_said_in_words() -> None:
    empty = replace(PICTURE, groups=(), upcoming=(), failures=(), reasons=(), health="healthy", parked=0, workers=0)

    text = "\n".join(seen(empty, 120, 20))

    assert "No groups declared. A worker declares its own when it starts, or run: mainspring declare MODULE:APP" in text
    assert "no active schedules" in text
    assert "no failed runs kept" in text
    assert "0 workers" in text


def test_a_picture_that_stands_still_or_is_not_of_now_says_so() -> None:
    lines = seen(PICTURE, 100, 20, held=True, trouble="the database does not reply")

    assert lines[1] == " the database does not reply"
    assert lines[-1] == "  paused   q quit   p continue"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.00004, "0.0 ms"),
        (0.0123, "12 ms"),
        (1.23, "1.2 s"),
        (12.7, "13 s"),
        (59.7, "1m 00s"),
        (245, "4m 05s"),
        (11_520, "3h 12m"),
        (187_200, "2d 4h"),
    ],
)
def test_lengths_of_time_are_short(seconds: float, words: str) -> None:
    assert span(timedelta(seconds=seconds)) == words


@pytest.mark.parametrize(
    ("number", "words"), [(0.0, "·"), (0.04, "<0.1"), (3.14, "3.1"), (412.3, "412"), (9_999, "9,999"), (12_345, "12k")]
)
def test_rates_have_few_digits(number: float, words: str) -> None:
    assert rate(number) == words


@pytest.mark.parametrize(
    ("values", "bars"), [((), ""), ((0, 0), ""), ((0, 1, 1000), " ▁█"), ((8, 4, 1), "█▄▁"), ((7,), "█")]
)
def test_whatever_is_not_nothing_has_a_bar(values: tuple[int, ...], bars: str) -> None:
    assert sparkline(values) == bars


def test_elsewhere_it_is_printed_once(stocked: Shell) -> None:
    printed, json = stocked.several(("top", *APP), ("top", *APP, "--json"))

    lines = printed.out.splitlines()
    assert (printed.code, printed.err) == (0, "")
    assert re.fullmatch(r"shop  sqlite:///shop\.db  \w+  0 workers  0 in hand  [\d-]+ [\d:]+ UTC", lines[0])
    assert any(re.match(r"send_receipt +unserved +0 ", line) for line in lines)
    assert "1 message parked, no group subscribes: mainspring messages list --state parked" in lines
    assert any("paper" in line or "ink" in line for line in lines)
    groups = {each["name"]: each for each in json.json["groups"]}
    assert set(groups) == {"analytics", "expire", "send_receipt"}
    assert (groups["send_receipt"]["dead"], groups["expire"]["scheduled"]) == (2, 1)
    assert {each["status"] for each in json.json["failures"]} <= {"failed", "dead"}


def test_schedules_come_in_the_order_in_which_they_are_due(timed: Shell) -> None:
    found = timed("top", "--app", "clockwork:app", "--json").json["upcoming"]

    assert found
    assert [each["next_at"] for each in found] == sorted(each["next_at"] for each in found)


@pytest.mark.no_schema
def test_without_tables_it_says_which_command_makes_them(shell: Shell, postgres_url: str, postgres_schema: str) -> None:
    shell.environment |= {"SHOP_URL": postgres_url, "SHOP_SCHEMA": postgres_schema}

    assert shell("top", *APP).complaint.endswith("run `mainspring migrate --app shop:app`")


@pytest.mark.parametrize("every", ["0s", "soon", "2h"])
def test_a_pace_that_cannot_be_is_refused(stocked: Shell, every: str) -> None:
    assert stocked("top", *APP, "--every", every).complaint.startswith(f"every='{every}'")


def test_on_a_terminal_it_is_drawn_until_q_is_pressed(stocked: Shell) -> None:
    ended = stocked.on_terminal("top", *APP, typed="q", anew=True)

    assert ended.code == 0
    assert "send_receipt" in ended.out
    assert ended.out.endswith("\x1b[?25h") or "\x1b[?1049l" in ended.out


def test_p_lets_it_stand_still_and_ctrl_c_ends_it(stocked: Shell) -> None:
    ended = stocked.on_terminal("top", *APP, "--every", "200ms", typed="p", interrupt_at="continue")

    assert ended.code == 0
    assert "paused" in ended.out
    assert "Traceback" not in ended.out


def test_a_worker_at_work_is_seen_with_its_rate(shell: Shell) -> None:
    with shell.started("worker", "shop:app") as worker:
        line_with(worker, "ready")
        shell("publish", "orders.placed", '{"id": 7}', *APP)
        line_with(worker, "receipt")
        mine: dict[str, Any] = {"rate": 0}
        while not mine["rate"]:
            groups = shell("top", *APP, "--json").json["groups"]
            (mine,) = [each for each in groups if each["name"] == "send_receipt"]
        assert stop(worker).code == 0

    assert (mine["state"], len(mine["pace"])) == ("served", 30)
    assert mine["p95"] > 0


def test_a_database_that_goes_away_is_said_so_until_it_is_back(shell: Shell, tmp_path: Path) -> None:
    with private_server(tmp_path) as server:
        shell.environment["SHOP_URL"] = server.url
        shell.several(("migrate", *APP), ("declare", "shop:app"))
        with terminal(shell, "top", *APP, "--every", "200ms") as screen:
            until(screen, "send_receipt")
            server.stop()
            until(screen, "the database does not reply, showing the last known state")
            server.start()
            until(screen, "groups", without="does not reply")
            os.write(screen, b"q")
            until(screen, "[?1049l")


def test_a_database_that_stands_still_is_said_so_long_before_it_is_given_up(shell: Shell, tmp_path: Path) -> None:
    with private_server(tmp_path) as server:
        shell.environment["SHOP_URL"] = server.url
        shell.several(("migrate", *APP), ("declare", "shop:app"))
        with terminal(shell, "top", *APP, "--every", "200ms") as screen:
            until(screen, "send_receipt")
            with frozen(server):
                until(screen, "the database has not replied for 3 s, showing the last known state")
            until(screen, "groups", without="replied")
            os.write(screen, b"q")
            until(screen, "[?1049l")


def test_ctrl_c_before_anything_is_drawn_leaves_no_traceback(shell: Shell) -> None:
    impatient = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # what runs in the background has it ignored
        "class Impatient:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == sys.argv[1]:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Impatient())\n"
        "from mainspring.cli import main\n"
        "main()\n"
    )
    for module in ("cyclopts", "mainspring.cli.commands", "mainspring.cli.top"):
        ended = subprocess.run(
            [sys.executable, "-c", impatient, module], cwd=shell.directory, capture_output=True, text=True, check=False
        )

        assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, "", "")


@contextmanager
def frozen(server: Cluster) -> Iterator[None]:
    """A server of which no process does anything, and which says so to nobody."""
    master = psutil.Process(server.pid)
    master.suspend()  # first, so that it makes no more of them
    stopped = [master, *master.children(recursive=True)]
    for each in stopped[1:]:
        with suppress(psutil.NoSuchProcess):  # its client had just left
            each.suspend()
    try:
        yield
    finally:
        for each in stopped:
            with suppress(psutil.NoSuchProcess):
                each.resume()


@contextmanager
def terminal(shell: Shell, *arguments: str) -> Iterator[int]:
    """A command on a terminal of its own, which has to end by itself and well."""
    process, screen = forks().start_on_terminal(arguments, directory=shell.directory, environment=shell.environment)
    try:
        yield screen
        with suppress(OSError):  # the other end of a terminal is closed by an error
            while os.read(screen, 65536):
                pass
    except BaseException:
        process.kill()
        process.wait(PATIENCE)
        raise
    finally:
        os.close(screen)
    assert process.wait(PATIENCE) == 0


def until(screen: int, text: str, *, without: str = "\x00") -> None:
    """Read frame after frame, until one has the text and not the other."""
    seen, deadline = "", time.monotonic() + PATIENCE
    while text not in (frame := seen.rpartition("mainspring top")[2] or seen) or without in frame:
        assert time.monotonic() < deadline, seen[-2000:]
        seen = (seen + os.read(screen, 65536).decode(errors="replace"))[-100_000:]
