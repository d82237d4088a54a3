"""The ``mainspring`` command. It comes with the ``cli`` extra, and says so when that is missing."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        import cyclopts  # noqa: F401
        import rich  # noqa: F401
    except ModuleNotFoundError as error:
        print(f"mainspring: the command needs {error.name}: pip install 'mainspring[cli]'", file=sys.stderr)
        sys.exit(2)
    from mainspring.cli.commands import run

    sys.exit(run(sys.argv[1:]))
