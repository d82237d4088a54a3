"""What cannot be looked for is refused with the reason and the value, before any database is asked."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from mainspring import Filter, Mainspring
from mainspring.model.errors import BadOption

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
BAD: list[tuple[dict[str, Any], str]] = [
    ({"limit": 0}, r"limit=0 must be a whole number from 1 to 10,000"),
    ({"limit": -1}, r"limit=-1 must be"),
    ({"limit": 10**9}, r"limit=1000000000 must be"),
    ({"limit": True}, r"limit=True must be"),
    ({"limit": "5"}, r"limit='5' must be"),
    ({"state": "runing"}, r"state='runing' is not one of .* Did you mean 'running'"),
    ({"state": None}, r"state=None is not one of 'scheduled', .* 'live', 'retrying'"),
    ({"since": datetime(2026, 1, 1)}, r"since=datetime.* has no timezone: add tzinfo=UTC"),  # noqa: DTZ001
    ({"until": datetime(2026, 1, 1)}, r"until=datetime.* has no timezone"),  # noqa: DTZ001
    ({"since": "2026-01-01"}, r"since='2026-01-01' must be a datetime with a timezone, not str"),
    ({"since": NOON, "until": NOON.replace(hour=11)}, r"since=2026-01-01T12:.* is after until=2026-01-01T11:"),
    *[({name: "a\x00b"}, rf"{name}='a\\x00b' has a NUL") for name in ("group", "topic", "key", "text", "held_by")],
    *[({name: "\ud800"}, rf"{name}='\\ud800' has a NUL .* or a lone surrogate") for name in ("topic", "key", "text")],
    ({"state": "dead", "error": "\x00"}, r"error='\\x00' has a NUL"),
    ({"state": "dead", "fingerprint": "\x00"}, r"fingerprint='\\x00' has a NUL"),
    ({"text": b"bytes"}, r"text=b'bytes' must be text, not bytes"),
    ({"key": 7}, r"key=7 must be text, not int"),
    ({"correlation_id": 7}, r"correlation_id=7 must be text, not int"),
    ({"correlation_id": "a\x00"}, r"correlation_id='a\\x00' has a NUL"),
    ({"kind": "recuring"}, r"kind='recuring' is not one of .* Did you mean 'recurring'"),
]


@pytest.fixture
async def app(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Mainspring]:
    app = Mainspring("memory://", name="shop")
    async with app:
        ledger = (await app._connection.storage("the test")).ledger

        async def asked(*_: object) -> None:
            pytest.fail("the database was asked")

        for name in ("browse", "causes", "runs", "failures", "chain"):
            monkeypatch.setattr(ledger, name, asked)
        yield app


@pytest.mark.parametrize(("wanted", "says"), BAD)
async def test_a_search_that_cannot_be_is_refused(app: Mainspring, wanted: dict[str, Any], says: str) -> None:
    with pytest.raises(BadOption, match=says):
        await app.messages.search(**wanted)
    with pytest.raises(BadOption, match=says):
        await app.messages.apply("cancel", Filter(**wanted))


@pytest.mark.parametrize("wanted", [{"scan": 0}, {"weight": 0}, {"before": 2**70}, {"before": -1}, {"before": 1.5}])
async def test_a_bulk_that_would_have_no_end_is_refused(app: Mainspring, wanted: dict[str, Any]) -> None:
    with pytest.raises(BadOption, match=r"must be a whole number from [01] to"):
        await app.messages.apply("cancel", Filter(**wanted))


async def test_every_list_refuses_what_it_cannot_list(app: Mainspring) -> None:
    calls: list[Any] = [
        lambda: app.messages.list(limit=0),
        lambda: app.messages.list("dread"),  # type: ignore[arg-type]
        lambda: app.messages.list(key="\x00"),
        lambda: app.audit(limit=0),
        lambda: app.audit(by="\x00"),
        lambda: app.messages.runs(limit=0),
        lambda: app.messages.runs("\x00"),
        lambda: app.messages.failures(limit=-1),
        lambda: app.messages.chain("0" * 32, limit=0),
        lambda: app.dead.list(limit=0),
        lambda: app.dead.list(topic="\ud800"),
        lambda: app.dead.causes(limit=0),
        lambda: app.dead.causes(cap=0),
        lambda: app.dead.causes(group="\x00"),
        lambda: app.dead.revive(group="\x00"),
        lambda: app.dead.discard(error="\x00"),
    ]
    for call in calls:
        with pytest.raises(BadOption, match=r"must be a whole number|is not one of|has a NUL"):
            await call()
