"""Where tests and their servers write: in memory, where there is enough of it.

SQLite waits for the disk at every commit, and a server writes tens of thousands of small files.
"""

import os
import shutil
import tempfile
from pathlib import Path

_MEMORY = Path("/dev/shm")
_ENOUGH = 4 * 2**30
"""Bytes. A whole run writes about half of it."""


def into_memory() -> None:
    """Let this process, and those that it starts, make their temporary files in memory; TMPDIR overrules it."""
    if "TMPDIR" in os.environ or not _MEMORY.is_dir() or not os.access(_MEMORY, os.W_OK):
        return
    # Tests start programs that they have made there.
    may_execute = not os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC
    if may_execute and shutil.disk_usage(_MEMORY).free >= _ENOUGH:
        os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)
