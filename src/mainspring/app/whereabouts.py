"""Whether an app and a URL mean one database, as far as can be told without connecting."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from mainspring.app.mainspring import Mainspring
from mainspring.app.storages import Address, read_url


def is_same_database(app: Mainspring, url: str) -> bool:
    """False where they cannot be the same. A server has many names, so only its databases' names are compared."""
    # Of the same room: nobody outside needs the address, which may hold a password.
    return _essence(app._address) == _essence(read_url(url))  # noqa: SLF001


def _essence(address: Address) -> tuple[str, str]:
    if address.engine == "sqlite":
        return address.engine, str(Path(address.target).resolve())
    return address.engine, urlsplit(address.target).path
