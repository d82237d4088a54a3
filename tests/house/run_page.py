"""Run the blocks of one page, in order, in one namespace, in the current directory.

    python -m tests.house.run_page PAGE

Tracebacks name the page and its lines. `await` may stand at the top of a block, as in `python -m asyncio`.
"""

import ast
import asyncio
import inspect
import re
import signal
import subprocess
import sys
import types
from pathlib import Path

from tests.house.pages import Block, blocks, commands

_ENDLESS = re.compile(r"\bmainspring (worker|dashboard|top)\b")
_A_WHILE, _PATIENCE = 3.0, 60.0


def main(page: Path) -> None:
    module = types.ModuleType("page")
    sys.modules["page"] = module
    sys.path.insert(0, "")
    with asyncio.Runner() as runner:
        for block in blocks(page):
            if block.excuse is not None:
                continue
            if block.language == "python":
                _execute(block, page, module, runner)
            else:
                for command in commands(block):
                    _type(command, f"{page}:{block.line}")


def _execute(block: Block, page: Path, module: types.ModuleType, runner: asyncio.Runner) -> None:
    if title := re.match(r"# (\w+\.py)\n", block.code):
        Path(title[1]).write_text(block.code)
    placed = "\n" * (block.line - 1) + block.code
    code = compile(placed, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    if code.co_flags & inspect.CO_COROUTINE:
        runner.run(types.FunctionType(code, module.__dict__)())
    else:
        exec(code, module.__dict__)


def _type(command: str, where: str) -> None:
    print(f"$ {command}", flush=True)
    with subprocess.Popen(f"exec {command}" if _ENDLESS.search(command) else command, shell=True) as process:
        try:
            status = process.wait(_A_WHILE if _ENDLESS.search(command) else _PATIENCE)
        except subprocess.TimeoutExpired:
            # A service that still runs is well; told to stop, it must do so in good order.
            process.send_signal(signal.SIGTERM)
            status = process.wait(_PATIENCE) if _ENDLESS.search(command) else 1
    if status != 0:
        sys.exit(f"{where}: `{command}` ended with {status}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
