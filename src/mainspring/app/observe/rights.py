"""What health and doctor report about the rights of the role that a process connects as."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mainspring.model.health import Check, built_in
from mainspring.model.roles import Lacking, Role, held, lacking_for
from mainspring.model.symptom import Symptom
from mainspring.storage.contract import Schema


class RightsCheck:
    """The check ``rights`` of one run. What a sufficient role is not meant to read is named, and no failure."""

    def __init__(self, *, works: bool) -> None:
        self._works = works
        self._held: Sequence[Role] = ()
        """The roles that the role of the database is, if that is enough for this process."""
        self._unread: list[str] = []

    async def run(self, schema: Schema) -> list[Check]:
        """Return what is lacking: degraded, since most may work without."""
        rights = await schema.lacking()
        lacking = lacking_for(rights, works=self._works)
        self._held = () if lacking else held(rights)
        return [replace(lacks(lacking), status="degraded")] if lacking else []

    def is_beyond(self, reading: str) -> bool:
        """Return whether the role is enough, and not meant for this reading, which the database has denied."""
        if self._held:
            self._unread.append(reading)
        return bool(self._held)

    def unread(self) -> Iterator[Check]:
        """Name what was not read."""
        if self._unread:
            summary = f"this role may {', '.join(self._held)}; not read, for want of rights: {', '.join(self._unread)}"
            yield built_in("rights", "healthy", summary, {"held": list(self._held), "unread": self._unread})


def lacks(lacking: Sequence[str]) -> Check:
    """Return the check for rights that are needed."""
    more = f" and {len(lacking) - 1:,} more: see `mainspring doctor`" if len(lacking) > 1 else ""
    return built_in("rights", "unhealthy", f"this role lacks {lacking[0]}{more}", {"lacking": list(lacking)})


def of_rights(lacking: Lacking, *, consumes: bool) -> Iterator[Symptom]:
    """Report which roles the role of the database is. Code with consumers may be that of a process without workers."""
    may, work = held(lacking), lacking.get("work", ())
    if may:
        yield Symptom("rights", "ok", f"this role may {', '.join(may)}")
        if consumes and work:
            more = f" and {len(work) - 1:,} more, all of them by `mainspring grants --role work ROLE_NAME`"
            yield Symptom("rights", "note", "this role cannot run workers", f"{work[0]}{more if work[1:] else ''}")
    else:
        for each in lacking_for(lacking, works=consumes):
            yield Symptom("rights", "error", "this role lacks a right", each)
