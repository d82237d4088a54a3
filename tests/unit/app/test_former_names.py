"""Names of an earlier release lead to those that took their place."""

from collections.abc import Iterator
from operator import attrgetter
from typing import Any

import pytest

from mainspring import Mainspring

ROOMS = ("", "messages", "dead", "groups", "workers", "schedules", "inbox", "leases", "joins", "fanouts", "stats")
FORMER = {
    ".tally": "stats.tally()",
    ".roster": "stats.roster()",
    ".measures": "stats.measures()",
    ".paces": "stats.rates()",
    "messages.show": "get(message_id)",
    "messages.withdraw": "cancel([(message_id, group)])",
    "messages.hasten": "run_now([(message_id, group)])",
    "messages.issue": "publish(topic, payload)",
    "dead.show": "get(message_id)",
    "fanouts.show": "get(topic, work), which returns None when there is none",
}


def _faces() -> Iterator[tuple[str, Any]]:
    app = Mainspring("memory://")
    for room in ROOMS:
        yield room, getattr(app, room) if room else app
        yield room, getattr(app.sync, room) if room else app.sync


def test_every_former_name_is_in_the_table_below_and_its_successor_exists() -> None:
    tables = {f"{room}.{name}": to for room, face in _faces() for name, to in getattr(face, "_former", {}).items()}

    assert tables == FORMER
    for room, face in _faces():
        for name, successor in FORMER.items():
            if name.startswith(f"{room}."):
                assert callable(attrgetter(successor.partition("(")[0])(face))


@pytest.mark.parametrize("name", FORMER)
@pytest.mark.parametrize("blocking", [False, True], ids=["awaited", "blocking"])
def test_a_former_name_raises_and_names_its_successor(name: str, blocking: bool) -> None:
    app = Mainspring("memory://")
    room, _, call = name.partition(".")
    side: Any = app.sync if blocking else app
    face: Any = getattr(side, room) if room else side

    with pytest.raises(AttributeError) as raised:
        getattr(face, call)

    assert str(raised.value) == f"{type(face).__name__}.{call} was renamed: write {FORMER[name]}"
    assert call not in dir(face)


def test_an_error_within_a_property_of_a_subclass_is_not_hidden() -> None:
    class Shop(Mainspring):
        @property
        def broken(self) -> object:
            return object().nothing  # type: ignore[attr-defined]

    with pytest.raises(AttributeError, match=r"^'object' object has no attribute 'nothing'$"):
        _ = Shop("memory://").broken


def test_a_name_that_never_was_is_missing_as_usual() -> None:
    app = Mainspring("memory://")

    with pytest.raises(AttributeError, match=r"^'Messages' object has no attribute 'lst'$"):
        _ = app.messages.lst  # type: ignore[attr-defined]
