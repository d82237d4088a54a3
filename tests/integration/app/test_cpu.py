"""``cpu=True`` on a real file: found by name, run in another process, and gone with its worker."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from mainspring import Mainspring
from mainspring.model.errors import Misuse
from mainspring.model.views import RunView
from tests.integration.app import darkroom
from tests.integration.app.darkroom import Photo
from tests.integration.app.shop import eventually


@pytest.fixture(autouse=True)
def _worker_pid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKER_PID", str(os.getpid()))


async def run_of(app: Mainspring, payload: Any, **options: Any) -> RunView:
    """Publish one, and wait for what its handler did."""
    async with app.worker():
        await app.publish("photos.taken", payload, **options)

        async def over() -> bool:
            return bool(await app.messages.runs())

        await eventually(over)
        return (await app.messages.runs())[0]


def lab(path: Path, function: Callable[..., Any]) -> Mainspring:
    app = Mainspring(f"sqlite:///{path}/lab.db", keep="all", namespace="lab")
    app.consumer("photos.*", cpu=True, concurrency=1, retry="none")(function)
    return app


async def test_a_function_knows_its_message_in_another_process(tmp_path: Path) -> None:
    app = lab(tmp_path, darkroom.develop)

    run = await run_of(app, Photo("sea", 9), key="roll:1", headers={"by": "ada"}, correlation_id="trip")

    assert run.output == repr(("sea", "photos.taken", "develop", "roll:1", {"by": "ada"}, 1, "trip", 1)), run


@pytest.mark.parametrize("function", [darkroom.publishes, darkroom.forgets_to_await])
async def test_a_function_in_a_process_cannot_publish(tmp_path: Path, function: Callable[..., Any]) -> None:
    run = await run_of(lab(tmp_path, function), Photo("sea"))

    assert run.error is not None
    assert run.error.startswith("Misuse: a cpu=True handler has no database to publish to")


async def test_what_does_not_fit_is_unreadable(tmp_path: Path) -> None:
    run = await run_of(lab(tmp_path, darkroom.develop), {"name": 7})

    assert (run.status, run.kind) == ("dead", "unreadable")


async def test_what_a_function_or_a_class_asks_for_is_made_in_the_process() -> None:
    app = darkroom.app
    async with app.worker():
        await app.publish("photos.taken", Photo("sea"))

        async def both() -> bool:
            return len(await app.messages.runs()) == 2

        await eventually(both)
        runs = await app.messages.runs()
        kinds = {group.name: group.options["kind"] for group in await app.groups.list()}

    assert {run.output for run in runs} == {"sea at 50 mm", "sea enlarged at 50 mm for Enlarger"}
    assert kinds == {"takes_what_it_needs": "process", "Enlarger": "process"}


async def test_a_function_whose_name_now_means_another_is_refused_at_the_start(tmp_path: Path) -> None:
    app = lab(tmp_path, darkroom.original)

    with pytest.raises(Misuse, match=r"'replaced' in module .* is something else now"):
        async with app.worker():
            pass


SCRIPT = """
import os, re, time
from mainspring import Mainspring, intervals

app = Mainspring("sqlite:///lab.db", keep="all", grace="20s")

class Blurred(Exception):
    pass

@app.consumer("photos", cpu=True, concurrency=1, retry=intervals(0, retry_on=Blurred))
def develop(what: str) -> None:
    print(what, os.getpid(), os.getppid(), flush=True)
    if what == "blurred":
        raise Blurred
    if what == "torn":
        raise ValueError(what)
    if what == "hold":
        re.match(r"(a+)+$", "a" * 60 + "b")
    if what == "slow":
        time.sleep(1)
    print("developed")

def main():
    app.run()
    print("ended", flush=True)
"""
GUARDED = SCRIPT + '\nif __name__ == "__main__":\n    main()\n'
UNGUARDED = SCRIPT + "\nmain()\n"


class Lab:
    """The script as a process, with what it and its processes print."""

    def __init__(self, directory: Path, text: str, command: list[str]) -> None:
        (directory / "lab.py").write_text(text)
        self._url = f"sqlite:///{directory}/lab.db"
        self.process = subprocess.Popen(
            [sys.executable, *command], cwd=directory, stdout=subprocess.PIPE, text=True, start_new_session=True
        )

    async def publish(self, what: str) -> None:
        """Publish to it; until it has declared its consumer the message is parked."""
        async with Mainspring(self._url, name="sender") as sender:
            await sender.publish("photos", what)

    def words(self) -> list[str]:
        """The next line, word by word."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().split()

    def end(self) -> list[str]:
        """Stop it in good order; what it said at the end."""
        self.process.terminate()
        out, _ = self.process.communicate(timeout=100)
        assert self.process.returncode == 0
        return out.splitlines()


@pytest.fixture
def labs(tmp_path: Path) -> Iterator[Callable[..., Lab]]:
    started: list[Lab] = []

    def start(text: str, *command: str) -> Lab:
        started.append(Lab(tmp_path, text, list(command)))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.communicate()


@pytest.mark.parametrize("command", [["lab.py"], ["-m", "lab"]])
async def test_a_function_of_the_script_itself_is_found(labs: Callable[..., Lab], command: list[str]) -> None:
    lab = labs(GUARDED, *command)
    await lab.publish("sea")

    said = lab.words()

    assert said[0] == "sea"
    assert int(said[1]) != lab.process.pid
    assert int(said[2]) == lab.process.pid
    assert lab.words() == ["developed"]
    assert lab.end() == ["ended"]


@pytest.mark.parametrize("command", [["lab.py"], ["-m", "lab"]])
async def test_the_policy_knows_an_exception_of_the_script(
    labs: Callable[..., Lab], tmp_path: Path, command: list[str]
) -> None:
    lab = labs(GUARDED, *command)
    await lab.publish("blurred")
    await lab.publish("torn")

    said = sorted([lab.words()[0], lab.words()[0], lab.words()[0]])
    lab.end()

    assert said == ["blurred", "blurred", "torn"]


async def test_a_script_without_a_guard_is_told_to_write_one(labs: Callable[..., Lab], tmp_path: Path) -> None:
    lab = labs(UNGUARDED, "lab.py")
    await lab.publish("sea")
    app = Mainspring(f"sqlite:///{tmp_path}/lab.db")
    async with app:

        async def dead() -> bool:
            return bool(await app.dead.list())

        await eventually(dead)
        [run] = await app.messages.runs()
    lab.end()

    assert run.error is not None
    assert 'under `if __name__ == "__main__":`' in run.error


async def test_a_process_ends_with_its_worker_even_in_a_call_that_holds_the_interpreter(
    labs: Callable[..., Lab],
) -> None:
    lab = labs(GUARDED, "lab.py")
    await lab.publish("hold")
    child = psutil.Process(int(lab.words()[1]))
    before = child.cpu_times().user

    async def holding() -> bool:
        return child.cpu_times().user > before + 0.2

    await eventually(holding)

    lab.process.kill()

    async def gone() -> bool:
        return not child.is_running() or child.status() == psutil.STATUS_ZOMBIE

    try:
        await eventually(gone)
    finally:
        with suppress(psutil.NoSuchProcess):
            child.kill()


async def test_ctrl_c_lets_a_process_finish(labs: Callable[..., Lab]) -> None:
    lab = labs(GUARDED, "lab.py")
    await lab.publish("slow")
    assert lab.words()[0] == "slow"

    # As a terminal does: to every process of the foreground group.
    os.killpg(lab.process.pid, signal.SIGINT)
    out, _ = lab.process.communicate(timeout=100)

    assert (out.splitlines(), lab.process.returncode) == (["developed", "ended"], 0)
