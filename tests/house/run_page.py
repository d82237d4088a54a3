"""Run the blocks of one page, in order, in one namespace, in the current directory.

    python -m tests.house.run_page PAGE

Tracebacks name the page and its lines. `await` may stand at the top of a block, as in `python -m asyncio`.
A block that begins with a file's name, `# shop.py` or `# mainspring.toml`, is saved under that name. One in a folder,
`# orders/models.py`, is only saved: what the page does later imports it.
A service (`mainspring worker`) is told to stop when it has said every line that the page shows, or anything at all
where the page shows none, and must then end in good order.
The placeholder for a PostgreSQL database is replaced by the address in PAGE_POSTGRES, wherever it stands, and SQL is
run there, each block as one script.
Commands are typed into a shell. With PAGE_FORKS=1 and a page that has many, this is so for the first two only: the
others are forked, since a process that starts anew takes longer to import the package than to do what the page says.
"""

import ast
import asyncio
import inspect
import os
import re
import shlex
import subprocess
import sys
import threading
import types
from dataclasses import replace
from importlib.machinery import ModuleSpec
from itertools import count
from pathlib import Path

from tests.house.pages import PLACEHOLDER, Block, blocks, dialogue
from tests.services.forks import forks

_ENDLESS = re.compile(r"\b(mainspring (worker|dashboard)|mainspring_worker)\b")
_FILE = re.compile(r"# ((?:\w+/)*\w+\.(?:py|toml))\n")
_PATIENCE = 100.0
_TYPED, _MANY = 2, 10
_PLAIN = re.compile(r"(?P<settings>(?:[A-Z_]+=\S+ )*)mainspring (?P<words>[^|<>&;$`]*)")


def main(page: Path) -> None:
    module = types.ModuleType("page")
    module.__spec__ = ModuleSpec("page", None, origin=str(page))  # a module like any other, for what asks
    sys.modules["page"] = module
    sys.path.insert(0, "")
    server = os.environ.get("PAGE_POSTGRES", PLACEHOLDER)
    many = sum(len(dialogue(block)) for block in blocks(page) if block.excuse is None) >= _MANY
    forked_from = _TYPED if many and os.environ.get("PAGE_FORKS") else sys.maxsize
    typed = count()
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
                    if _ENDLESS.search(command):
                        status = _serve(command, answer)
                    elif next(typed) >= forked_from and (plain := _PLAIN.fullmatch(command)):
                        status = _fork(command, plain["settings"], plain["words"])
                    else:
                        status = _type(command)
                    if status != 0:
                        sys.exit(f"{page}:{block.line}: `{command}` ended with {status}")


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


def _type(command: str) -> int:
    print(f"$ {command}", flush=True)
    return subprocess.run(command, shell=True, check=False, timeout=_PATIENCE).returncode


def _fork(command: str, settings: str, words: str) -> int:
    print(f"$ {command}", flush=True)
    said = forks().run(
        shlex.split(words, comments=True),
        directory=Path.cwd(),
        environment={**os.environ, **dict(each.split("=", 1) for each in shlex.split(settings))},
        patience=_PATIENCE,
    )
    print(said.out + said.err, end="", flush=True)
    return said.code


def _serve(command: str, answer: list[str]) -> int:
    print(f"$ {command}", flush=True)
    unsaid, told = list(answer), False
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(f"exec {command}", shell=True, env=environment, stdout=subprocess.PIPE, text=True) as service:
        watchdog = threading.Timer(_PATIENCE, service.kill)
        watchdog.start()
        assert service.stdout is not None
        for line in service.stdout:
            print(line, end="", flush=True)
            if line.strip() in unsaid:
                unsaid.remove(line.strip())
            if not unsaid and not told:
                service.terminate()
                told = True
        watchdog.cancel()
    if unsaid:
        print(f"it never said {unsaid}")
    return service.returncode


if __name__ == "__main__":
    main(Path(sys.argv[1]))
