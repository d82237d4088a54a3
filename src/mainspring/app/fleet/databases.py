"""The databases of a fleet: what names them, how that is asked again, and which answers are usable."""

from __future__ import annotations

import asyncio
import fnmatch
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mainspring.app.names import check_name
from mainspring.app.options import closest, whole
from mainspring.app.storages import Address, UrlObject, identity, read_url
from mainspring.model.errors import BadOption, UnknownDatabase
from mainspring.model.text import described

_logger = logging.getLogger("mainspring.fleet")
_WILD = frozenset("*?[")
_PATIENCE = 30.0
"""Seconds that a function has to name the databases."""


@dataclass(frozen=True, slots=True)
class Database:
    """A database of a fleet: its URL, and how it is served beside the others."""

    url: Any = field(repr=False)
    """As text, or as an object of SQLAlchemy."""
    weight: int = 1
    """While others wait, it keeps its turn this many times as long as one of weight 1, if it is busy."""
    about: Any = None
    """Anything that the application keeps with it: ``fleet.databases["acme"].about``."""

    def __post_init__(self) -> None:
        """Check it."""
        whole(self.weight, "weight", least=1, most=1_000)


Urls = Mapping[str, str | UrlObject | Database]
"""The URL of each database, or more about it, by name."""
Discover = Callable[[], Urls | Awaitable[Urls]]
"""Names the databases; plain or async."""


class Databases:
    """The addresses of a fleet's databases, by name.

    An answer that cannot be used, or none, leaves them as they were; an entry that cannot be used is left out, and the
    others count. Each such thing is logged when it begins, and once more when it is over.
    """

    def __init__(self, source: Urls | Discover) -> None:
        self._source = source
        self.addresses: dict[str, Address] = {}
        """The databases, in the order in which they were named."""
        self.named: dict[str, Database] = {}
        """The same, as they were named."""
        self.trouble: str | None = None
        """Why the last answer could not be used."""
        self.rejected: dict[str, str] = {}
        """The entries of the last answer that could not be used, by name, and why."""
        self._taken_at = time.monotonic()
        if isinstance(source, Mapping):
            self._take(_read_mapping(source))
            if self.rejected:
                raise BadOption("; ".join(self.rejected.values()))
        elif not callable(source):
            raise BadOption(
                f"Fleet(app, databases={source!r}): pass a mapping of names to URLs, as in "
                "{'acme': 'postgresql://db/acme'}, or a function that returns one"
            )

    @property
    def age(self) -> float:
        """Seconds since they were last named, or since the beginning."""
        return time.monotonic() - self._taken_at

    async def refresh(self) -> None:
        """Ask for the databases. Does not raise."""
        try:
            async with asyncio.timeout(_PATIENCE):
                answer = await self._asked()
            found = _read_mapping(answer)
        except TimeoutError:
            self._failed(f"the function has not returned for {_PATIENCE:g} s")
        except Exception as error:  # noqa: BLE001 - the function is the caller's, and the databases stay as they were
            self._failed(described(error))
        else:
            if self.trouble is not None:
                self.trouble = None
                _logger.info("the databases of the fleet are known again: %d", len(found))
            self._take(found)

    async def _asked(self) -> object:
        if isinstance(self._source, Mapping):
            return self._source
        if inspect.iscoroutinefunction(self._source):
            return await self._source()
        # In a thread: it may read a file or a database.
        answer = await asyncio.to_thread(self._source)
        return await answer if inspect.isawaitable(answer) else answer

    def _failed(self, why: str) -> None:
        if self.trouble is None:
            known = len(self.addresses)
            _logger.warning("failed to ask for the databases of the fleet, which stay the %d known: %s", known, why)
        self.trouble = why

    def _take(self, urls: Mapping[object, object]) -> None:
        addresses: dict[str, Address] = {}
        named: dict[str, Database] = {}
        rejected: dict[str, str] = {}
        owners = {key: name for name, each in self.addresses.items() if name in urls and (key := identity(each))}
        for name, value in urls.items():
            database = value if isinstance(value, Database) else Database(value)
            try:
                checked = check_name(name, "the name of a database")
                address = _read(checked, database.url)
                _refuse_namesake(checked, address, owners)
            except BadOption as error:
                rejected[str(name)] = str(error)
            else:
                addresses[checked], named[checked] = address, database
        for name in rejected.keys() - self.rejected.keys():
            _logger.error("a database of the fleet cannot be used: %s", rejected[name])
        self.addresses, self.named, self.rejected = addresses, named, rejected
        self._taken_at = time.monotonic()


def _read_mapping(answer: object) -> Mapping[object, object]:
    if not isinstance(answer, Mapping):
        raise BadOption(
            f"the databases must be a mapping of names to URLs, as in {{'acme': 'postgresql://db/acme'}}, not "
            f"{type(answer).__qualname__}"
        )
    return answer


def _read(name: str, url: object) -> Address:
    try:
        address = read_url(url)
    except BadOption as error:
        raise BadOption(f"{name!r}: {error}") from None
    if address.is_fleet:
        raise BadOption(f"{name!r}: fleet:// is no database: name one, as in 'sqlite:///acme.db'")
    return address


def _refuse_namesake(name: str, address: Address, owners: dict[tuple[str, ...], str]) -> None:
    """Raise BadOption if another name has this database already; one that is in use stays."""
    key = identity(address)
    if key is not None and (owner := owners.setdefault(key, name)) != name:
        raise BadOption(
            f"{name!r} and {owner!r} are the same database, {address.shown}, which would be served twice: leave one of "
            f"them out; {name!r} is not used"
        )


Chosen = str | Collection[str] | None
"""Some databases: a pattern as in ``eu-*``, or names and patterns; None: all."""


def check_chosen(chosen: object) -> None:
    """Raise BadOption unless this chooses databases."""
    if chosen is None or isinstance(chosen, str):
        return
    if not isinstance(chosen, Collection) or not all(isinstance(each, str) for each in chosen):
        raise BadOption(f"databases={chosen!r} must be a pattern, as in 'eu-*', or a list of names and patterns")


def is_chosen(name: str, chosen: Chosen) -> bool:
    """Return whether this database is one of those."""
    if chosen is None:
        return True
    several = (chosen,) if isinstance(chosen, str) else chosen
    return name in several or any(is_pattern(each) and fnmatch.fnmatchcase(name, each) for each in several)


def is_pattern(text: str) -> bool:
    """Return whether this may choose databases of other names too."""
    return not _WILD.isdisjoint(text)


def select(names: Sequence[str], chosen: Chosen) -> list[str]:
    """Return the chosen names. Raises UnknownDatabase if one is not there, or a pattern matches none."""
    check_chosen(chosen)
    found = [name for name in names if is_chosen(name, chosen)]
    for each in (chosen,) if isinstance(chosen, str) else chosen or ():
        if each not in found and not any(is_chosen(name, each) for name in found):
            raise unknown(each, names)
    if chosen is not None and not found:
        raise unknown(list(chosen), names)
    return found


def unknown(name: object, names: Iterable[str]) -> UnknownDatabase:
    """Return the error for a name that is not there."""
    known = sorted(names)
    return UnknownDatabase(name, known, closest(name, known) if isinstance(name, str) else "")
