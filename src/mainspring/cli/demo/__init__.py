"""``mainspring demo``: run the library's demo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from mainspring.cli.errors import Refused


async def demo(
    *,
    seconds: float | None = None,
    file: Annotated[Path | None, Parameter(metavar="PATH")] = None,
) -> int:
    """Run a small demo shop with its dashboard on a temporary SQLite file.

    Parameters
    ----------
    seconds
        How long to run [until Ctrl-C on a terminal, else 15].
    file
        Keep the database here instead of in the temporary directory; the file must not exist.
    """
    if seconds is not None and not 1 <= seconds <= 3600:  # noqa: PLR2004
        raise Refused(f"--seconds {seconds:g} must be between 1 and 3600")
    if file is not None and file.exists():
        raise Refused(f"--file {file} exists: name a new file")
    from mainspring.cli.demo.run import run

    return await run(seconds, file)
