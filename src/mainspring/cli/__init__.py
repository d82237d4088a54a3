"""The ``mainspring`` command. It needs the ``cli`` extra, and reports when that is missing."""

from __future__ import annotations

import signal
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line and exit with its code."""
    # Before a command has started there is nothing to clean up: Ctrl-C prints no traceback.
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_default:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        import cyclopts  # noqa: F401
        import rich  # noqa: F401
    except ModuleNotFoundError as error:
        print(f"mainspring: the command needs {error.name}: pip install 'mainspring[cli]'", file=sys.stderr)
        sys.exit(2)
    from mainspring.cli.commands import run
    from mainspring.cli.errors import INTERRUPTED

    try:
        if is_default:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code)
