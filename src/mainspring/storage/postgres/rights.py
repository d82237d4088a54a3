"""What the role may not do that an app does, read from the catalogs for all that is in the schema."""

from __future__ import annotations

import re
from functools import cache

from mainspring.storage.postgres.names import PACKAGE, Names
from mainspring.storage.script import Script, Statement, statements

_CALL = re.compile(r"\bmainspring\.(\w+)\(")


def lacking(names: Names) -> Script[list[str]]:
    """See ``Schema.lacking``."""
    rows = yield Statement(names.sql("rights_lacking"), (names.schema, list(_called())))
    return [f"GRANT {right} ON {what} TO {role};" for right, what, role in rows]


@cache
def _called() -> tuple[str, ...]:
    """The functions that our statements call. Those that publish from SQL are for other roles."""
    return tuple(sorted({name for text in statements(PACKAGE).values() for name in _CALL.findall(text)}))
