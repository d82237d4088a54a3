"""The statements of PostgreSQL for those who write a parameter as ``%(p1)s`` instead of ``$1``."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from mainspring.storage.script import Statement

_PARAMETER = re.compile(r"\$(\d+)")
_COMMENT = re.compile(r"--[^\n]*")
_INDENT = re.compile(r"\n\s*")


def named(statement: Statement) -> tuple[str, dict[str, Any]]:
    """The same statement with parameters by name, and their values."""
    return _renamed(statement.sql), {f"p{place}": value for place, value in enumerate(statement.args, 1)}


@cache
def _renamed(sql: str) -> str:
    # Without comments, since a parameter named in one would count, and because psycopg remembers how to read short
    # texts only.
    bare = _INDENT.sub("\n", _COMMENT.sub("", sql)).strip()
    return _PARAMETER.sub(r"%(p\1)s", bare.replace("%", "%%"))
