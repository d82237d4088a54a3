"""Confirmation prompts and progress bars."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mainspring.cli.failures import Refused, interruptible

Advance = Callable[[int], object]


def confirmed(question: str, *, yes: bool) -> bool:
    """Return whether to proceed: because of ``--yes``, or of the answer at the terminal."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise Refused(f"{question} There is no terminal to confirm it at: pass --yes")
    with interruptible():
        # Inside the context, because Ctrl-C may be pressed at the prompt.
        sys.stderr.write(f"{question} [y/N] ")
        sys.stderr.flush()
        return sys.stdin.readline().strip().lower() in {"y", "yes"}


@contextmanager
def progress(doing: str, total: int | None) -> Iterator[Advance]:
    """Show a bar on stderr if that is a terminal; call the yielded function with the number done so far."""
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
