"""Following an example's README to the letter: every command is typed, in order, and answers what the page shows.

A service runs from its command to the end of the page. What only asks is asked again until it answers as shown, because
a worker does its part in its own time. Port 8000 is any free one.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.house.pages import Block, blocks
from tests.house.tree import ROOT
from tests.services.cluster import free_port
from tests.services.unmeasured import unmeasured

_SERVICE = re.compile(r"\b(runserver|uvicorn|mainspring_worker|mainspring worker)\b")
_ASKS = re.compile(r"^curl (?!.*(--data|--json|--request POST))")
_PATIENCE = 60.0
_STEP = 0.05


class Session:
    """A copy of the example and the terminals it is used from."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder = folder
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        self._environment = {**unmeasured(), "PATH": path, "PYTHONUNBUFFERED": "1", **environment}
        self._port = str(free_port())
        self.typed: list[str] = []
        self.services = ExitStack()

    def follow(self, page: Path) -> None:
        for block in blocks(page):
            if block.language == "console":
                for command, shown in _dialogue(block):
                    self.type(command.replace("8000", self._port), [line.replace("8000", self._port) for line in shown])

    def type(self, command: str, shown: list[str]) -> None:
        self.typed.append(command)
        if _SERVICE.search(command):
            self.services.enter_context(self._serving(command, shown))
        elif _ASKS.match(command):
            self._ask(command, shown)
        else:
            ran = self._run(command)
            assert ran.returncode == 0, f"$ {command}\n{ran.stdout}"
            _compare(command, shown, ran.stdout)

    def _ask(self, command: str, shown: list[str]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not _answers(self._run(command).stdout, shown):
            assert time.monotonic() < deadline, f"$ {command}\n{self._run(command).stdout}\nnever answered {shown}"
            time.sleep(_STEP)

    def _run(self, command: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            command,
            shell=True,
            cwd=self._folder,
            env=self._environment,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_PATIENCE,
        )

    @contextmanager
    def _serving(self, command: str, shown: list[str]) -> Iterator[None]:
        # A session of its own: a server that reloads itself has children, and they end with it.
        service = subprocess.Popen(
            f"exec {command}",
            shell=True,
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        said: list[str] = []
        ready = threading.Event()

        def listen() -> None:
            assert service.stdout is not None
            for line in service.stdout:
                said.append(line)
                if _answers("".join(said), shown):
                    ready.set()

        listening = threading.Thread(target=listen)
        listening.start()
        try:
            assert ready.wait(_PATIENCE), f"$ {command}\n{''.join(said)}\nnever said {shown}"
            yield
        finally:
            os.killpg(service.pid, signal.SIGTERM)
            code = service.wait(_PATIENCE)
            listening.join(_PATIENCE)
            assert service.stdout is not None
            service.stdout.close()
        assert "Traceback" not in "".join(said), "".join(said)
        assert code == 0 or "mainspring" not in command, f"$ {command}\nended with {code}\n{''.join(said)}"


@contextmanager
def copied(example: str, folder: Path, **environment: str) -> Iterator[Session]:
    """A fresh copy of an example; whatever was started in it ends with the block."""
    shutil.copytree(
        ROOT / "examples" / example, folder / example, ignore=shutil.ignore_patterns("__pycache__", "*.db*", ".*_cache")
    )
    session = Session(folder / example, environment)
    with session.services:
        yield session


def _dialogue(block: Block) -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    for line in block.code.replace("\\\n", " ").splitlines():
        if line.startswith("$ "):
            found.append((line[2:].strip(), []))
        elif line.strip():
            found[-1][1].append(line.strip())
    return found


def _compare(command: str, shown: list[str], said: str) -> None:
    assert _answers(said, shown), f"$ {command}\n{said}\nis not what the page shows: {shown}"


def _answers(said: str, shown: list[str]) -> bool:
    """Whether every line that the page shows was said; an ellipsis stands for the rest of a line."""
    lines = [line.strip() for line in said.splitlines()]
    return all(
        any(line.startswith(each[:-1]) if each.endswith("…") else line == each for line in lines) for each in shown
    )
