"""Run the blocks of one page, in order, in one namespace, in the current directory.

    python -m tests.house.run_page PAGE

Tracebacks name the page and its lines. `await` may stand at the top of a block, as in `python -m asyncio`.
A block that begins with a file's name, `# shop.py` or `# mainspring.toml`, is saved under that name. One in a folder,
`# orders/models.py`, is only saved: what the page does later imports it.
A command must print every line that the page shows below it, on either stream. A service (`mainspring worker`) is told
to stop when it has printed them, or anything at all where the page shows none, and must then end in good order.
The placeholder for a PostgreSQL database is replaced by the address in PAGE_POSTGRES, wherever it stands, and SQL is
run there, each block as one script.
Commands are typed into a shell. With PAGE_FORKS=1 those of ours are forked from this process as it was before the first
block, since a process that starts anew takes longer to import the package than to do what the page says.
"""

import ast
import asyncio
import inspect
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import types
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import IO, NamedTuple

from tests.house.pages import PLACEHOLDER, Block, blocks, dialogue
from tests.services.forks import Forks

_ENDLESS = re.compile(r"\b(mainspring (worker|dashboard)|mainspring_worker)\b")
_FILE = re.compile(r"# ((?:\w+/)*\w+\.(?:py|toml))\n")
_PATIENCE = 60.0
"""Seconds for one command: less than a test waits for the page, which must be there to end it."""
_PLAIN = re.compile(r"(?P<settings>(?:[A-Z_]+=\S+ )*)mainspring (?P<words>(?!.*--processes)[^|<>&;$`]*)")


def main(page: Path) -> None:
    module = types.ModuleType("page")
    module.__spec__ = ModuleSpec("page", None, origin=str(page))  # a module like any other, for what asks
    sys.modules["page"] = module
    sys.path.insert(0, "")
    server = os.environ.get("PAGE_POSTGRES", PLACEHOLDER)
    forks = Forks.forked() if os.environ.get("PAGE_FORKS") else None
    with asyncio.Runner() as runner:
        for written in blocks(page):
            if written.excuse is not None:
                continue
            # Also behind the name of a driver, as SQLAlchemy writes it.
            tail, meant = PLACEHOLDER.removeprefix("postgresql"), server.removeprefix("postgresql")
            block = replace(written, code=written.code.replace(tail, meant))
            if _save(block):
                continue
            if block.language == "python":
                _execute(block, page, module, runner)
            elif block.language == "sql":
                _query(block, page, server)
            else:
                for command, answer in dialogue(block):
                    print(f"$ {command}", flush=True)
                    endless = _ENDLESS.search(command) is not None
                    start = _started(command, forks, endless=endless)
                    status, unsaid = _served(start, answer, endless=endless)
                    if status != 0:
                        sys.exit(f"{page}:{block.line}: `{command}` ended with {status}")
                    if unsaid:
                        sys.exit(f"{page}:{block.line}: `{command}` never printed {unsaid}")


def _save(block: Block) -> bool:
    """Save what has a file's name; whether that is all there is to do."""
    title = _FILE.match(block.code)
    if title is None:
        return False
    path = Path(title[1])
    path.parent.mkdir(exist_ok=True)
    path.write_text(block.code)
    return len(path.parts) > 1


def _execute(block: Block, page: Path, module: types.ModuleType, runner: asyncio.Runner) -> None:
    placed = "\n" * (block.line - 1) + block.code
    code = compile(placed, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    if code.co_flags & inspect.CO_COROUTINE:
        runner.run(types.FunctionType(code, module.__dict__)())
    else:
        exec(code, module.__dict__)


def _query(block: Block, page: Path, server: str) -> None:
    import psycopg  # a newcomer to a page without SQL need not have it

    try:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(block.code.encode())
    except psycopg.Error as error:
        sys.exit(f"{page}:{block.line}: {error}")


class _Start(NamedTuple):
    """A command that has started, its output, and what waits for its exit code."""

    pid: int
    said: IO[str]
    wait: Callable[[float], int]


def _started(command: str, forks: Forks | None, *, endless: bool) -> _Start:
    ours, theirs = os.pipe()
    errors = sys.stderr.fileno() if endless else theirs  # a service logs there, which pages do not show
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    plain = _PLAIN.fullmatch(command)
    if forks is None or plain is None:
        signalled = f"exec {command}" if endless else command
        typed = subprocess.Popen(signalled, shell=True, env=environment, stdout=theirs, stderr=errors)
        start = _Start(typed.pid, os.fdopen(ours), typed.wait)
    else:
        environment |= dict(each.split("=", 1) for each in shlex.split(plain["settings"]))
        words = shlex.split(plain["words"], comments=True)
        with Path(os.devnull).open() as nothing:
            streams = [nothing.fileno(), theirs, errors]
            fork = forks.start(words, directory=Path.cwd(), environment=environment, streams=streams)
        start = _Start(fork.pid, os.fdopen(ours), fork.wait)
    os.close(theirs)
    return start


def _served(start: _Start, answer: list[str], *, endless: bool) -> tuple[int, list[str]]:
    """Show what it prints up to its end, and return its exit code and the lines of the answer that it never printed.

    A service is told to stop when it has printed all of the answer.
    """
    # Threads that print at once may put two texts on one line, and both ends of line after them.
    shown, expected, told = "", Counter(map(_squeezed, answer)), not endless
    watchdog = threading.Timer(_PATIENCE, os.kill, (start.pid, signal.SIGKILL))
    watchdog.start()
    with start.said:
        for line in start.said:
            print(line, end="", flush=True)
            shown += _squeezed(line)
            if not told and all(shown.count(text) >= times for text, times in expected.items()):
                os.kill(start.pid, signal.SIGTERM)
                told = True
    watchdog.cancel()
    unsaid = [text for text, times in expected.items() if shown.count(text) < times]
    return start.wait(_PATIENCE), unsaid


def _squeezed(line: str) -> str:
    """The line with single spaces: how wide the columns of a table are depends on its other lines."""
    return re.sub(" +", " ", line)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
