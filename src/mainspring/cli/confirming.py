"""Asking before much is done, and a bar while it is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mainspring.cli.failures import Refused, interruptible

Advance = Callable[[int], object]


def confirmed(question: str, *, yes: bool) -> bool:
    """Whether to go on: ``--yes`` says so, else whoever sits at the terminal."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise Refused(f"{question} Nobody is at the terminal to say so: pass --yes")
    with interruptible():
        # Asked in here: whoever reads the question may press Ctrl-C at once.
        sys.stderr.write(f"{question} [y/N] ")
        sys.stderr.flush()
        return sys.stdin.readline().strip().lower() in {"y", "yes"}


@contextmanager
def progress(doing: str, total: int | None) -> Iterator[Advance]:
    """A bar on stderr where that is a terminal; call what it gives with how many are done so far."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _done: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(doing, total=total)
        yield lambda done: bar.update(task, completed=done)
