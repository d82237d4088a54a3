"""Following an example's README to the letter: every command is typed, in order, and answers what the page shows.

A service runs from its command to the end of the page, or until another command starts it again. What only asks is
asked again until it answers as shown, because a worker does its part in its own time. Port 8000 is any free one.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil

from tests.house.pages import Block, blocks
from tests.house.tree import ROOT
from tests.services.cluster import free_port
from tests.services.unmeasured import unmeasured

_SERVICE = re.compile(r"\b(runserver|uvicorn|mainspring_worker|mainspring worker)\b( [\w.:]+)?")
_ASKS = re.compile(r"curl (?!.*(--data|--json|--request POST))|python -m \w+\.(audit|tracing)|python -c|.* list\b")
_EXPORT = re.compile(r"export (\w+)=(\S+)")
_PLUGINS = "--disable-plugin-autoload -p asyncio -p mainspring"
"""Of the plugins that are installed here, those that an example has: the others take longer than its tests."""
_READY = "worker ready"
_PATIENCE = 60.0
_STEP = 0.05


class Session:
    """A copy of the example and the terminals it is used from."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        self._environment = {
            **unmeasured(),
            "PATH": path,
            "PYTHONUNBUFFERED": "1",
            "PYTEST_ADDOPTS": _PLUGINS,
            **environment,
        }
        self._port = str(free_port())
        self.typed: list[str] = []
        self.said: dict[str, list[str]] = {}
        """What the latest of each service has printed."""
        self.services = ExitStack()
        self._running: dict[str, ExitStack] = {}
        self._pids: dict[str, int] = {}

    def follow(self, beside: Mapping[str, Callable[[], None]] | None = None) -> None:
        """Type every command; ``beside`` are calls that are made while a command with this text runs."""
        for block in blocks(self.folder / "README.md"):
            if block.language == "console":
                for command, shown in _dialogue(block):
                    with ThreadPoolExecutor() as threads:
                        calls = [threads.submit(call) for text, call in (beside or {}).items() if text in command]
                        own_port = [line.replace("8000", self._port) for line in (command, *shown)]
                        self.type(own_port[0], own_port[1:])
                    for each in calls:
                        each.result()

    def type(self, command: str, shown: list[str]) -> None:
        self.typed.append(command)
        if export := _EXPORT.fullmatch(command):
            self._environment[export[1]] = export[2]
        elif service := _SERVICE.search(command):
            self._serve(service[0], command, shown)
        elif _ASKS.match(command):
            self._ask(command, shown)
        else:
            ran = self.run(command)
            assert ran.returncode == 0, f"$ {command}\n{ran.stdout}"
            _compare(command, shown, ran.stdout)

    def kill(self, service: str) -> None:
        """Kill −9 what the loop of a service runs, and wait until it has started again."""
        said = self.said[service]
        ready = sum(_READY in line for line in said)
        (worker,) = psutil.Process(self._pids[service]).children()
        worker.kill()
        deadline = time.monotonic() + _PATIENCE
        while sum(_READY in line for line in said) == ready:
            assert time.monotonic() < deadline, f"{service} has not started again: {said}"
            time.sleep(_STEP)

    def _serve(self, service: str, command: str, shown: list[str]) -> None:
        self._running.pop(service, ExitStack()).close()
        stack = self._running[service] = self.services.enter_context(ExitStack())
        said = self.said[service] = []
        self._pids[service] = stack.enter_context(self._serving(command, shown, said))

    def _ask(self, command: str, shown: list[str]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not _answers(self.run(command).stdout, shown):
            assert time.monotonic() < deadline, f"$ {command}\n{self.run(command).stdout}\nnever answered {shown}"
            time.sleep(_STEP)

    def run(self, command: str) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end."""
        return subprocess.run(
            command,
            shell=True,
            cwd=self.folder,
            env=self._environment,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_PATIENCE,
        )

    @contextmanager
    def _serving(self, command: str, shown: list[str], said: list[str]) -> Iterator[int]:
        # A session of its own: a server that reloads itself has children, and they end with it.
        is_script = ";" in command
        service = subprocess.Popen(
            command if is_script else f"exec {command}",
            shell=True,
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
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
            yield service.pid
        finally:
            os.killpg(service.pid, signal.SIGTERM)
            code = service.wait(_PATIENCE)
            listening.join(_PATIENCE)
            assert service.stdout is not None
            service.stdout.close()
        assert "Traceback" not in "".join(said), "".join(said)
        assert code == 0 or is_script or "mainspring" not in command, f"$ {command}\nended with {code}\n{''.join(said)}"


@contextmanager
def copied(
    example: str, folder: Path, renamed: Mapping[str, str] | None = None, **environment: str
) -> Iterator[Session]:
    """A fresh copy of an example; whatever was started in it ends with the block.

    What is ``renamed`` is so on its page and in its code: two runs of it have one broker.
    """
    shutil.copytree(
        ROOT / "examples" / example,
        folder / example,
        ignore=shutil.ignore_patterns("__pycache__", "*.db*", ".*_cache", "*.jsonl"),
    )
    for path in (folder / example).rglob("*.*"):
        text = path.read_text()
        for name, other in (renamed or {}).items():
            text = text.replace(name, other)
        path.write_text(text)
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
    """Whether every line that the page shows was said; an ellipsis stands for any text, a space for several."""
    lines = [" ".join(line.split()) for line in said.splitlines()]
    patterns = [".*".join(re.escape(part) for part in " ".join(each.split()).split("…")) for each in shown]
    return all(any(re.fullmatch(pattern, line) for line in lines) for pattern in patterns)
