"""``mainspring demo``: see the library at work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from mainspring.cli.failures import Refused


async def demo(
    *,
    seconds: float | None = None,
    file: Annotated[Path | None, Parameter(metavar="PATH")] = None,
) -> int:
    """Run a small shop on a temporary SQLite file, with its dashboard: orders, rollbacks, retries, timeouts, reports.

    Parameters
    ----------
    seconds
        How long to run [until Ctrl-C on a terminal, 15 elsewhere].
    file
        Keep the database here instead of in the temporary directory; the file must not exist yet.
    """
    if seconds is not None and not 1 <= seconds <= 3600:  # noqa: PLR2004
        raise Refused(f"--seconds {seconds:g} must be between 1 and 3600")
    if file is not None and file.exists():
        raise Refused(f"--file {file} exists already: name one that does not")
    from mainspring.cli.demo.run import run

    return await run(seconds, file)
