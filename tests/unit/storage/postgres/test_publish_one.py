"""One draft travels as it is, several as columns."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from mainspring.model.message import Draft, Priority
from mainspring.storage.postgres import columns

ID, CAUSE = UUID(int=1), UUID(int=2)
AT = datetime(2030, 1, 1, tzinfo=UTC)


def test_a_bare_draft_says_nothing_that_nobody_asked_for() -> None:
    assert columns.of_draft(Draft(ID, "a", b"{}")) == (
        *("a", "application/json", None, 2, ID, b"{}", None, None, None, None, None, None, None, None),
    )


def test_a_full_draft_is_in_the_order_of_the_statement() -> None:
    draft = Draft(
        ID, "a", b"x", "text/plain", {"b": "1", "a": "2"}, "key", "group", Priority.LOW, timedelta(1), AT,
        timedelta(2), AT, "corre\x00lation", CAUSE,
    )  # fmt: skip

    assert columns.of_draft(draft) == (
        "a",
        "text/plain",
        "group",
        3,
        ID,
        b"x",
        '{"a":"2","b":"1"}',
        "key",
        timedelta(1),
        AT,
        timedelta(2),
        AT,
        "corre\\x00lation",
        CAUSE,
    )
