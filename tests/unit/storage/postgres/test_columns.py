"""Batches become columns without losing, doubling or spoiling anything."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from mainspring.model.fingerprint import fingerprint
from mainspring.model.message import ALL_LEVELS, Claim, ClaimRequest, Draft, Priority
from mainspring.model.verdict import Bury, Done, Failure, Retry, Settlement
from mainspring.storage.portable.dialect import read_mapping, written_mapping
from mainspring.storage.postgres import columns

ONE, TWO, THREE = UUID(int=1), UUID(int=2), UUID(int=3)

MESSAGE = UUID(int=1)


def test_of_drafts_under_one_id_the_first_counts() -> None:
    result = columns.of_drafts([Draft(ONE, "a", b"first"), Draft(TWO, "a", b"other"), Draft(ONE, "a", b"second")])

    assert result[5:7] == ([ONE, TWO], [b"first", b"other"])


def test_what_drafts_have_in_common_travels_once() -> None:
    urgent = Draft(TWO, "a", b"", priority=Priority.URGENT, group="mail")

    result = columns.of_drafts([Draft(ONE, "a", b""), urgent, Draft(THREE, "a", b"")])

    assert result[:5] == (["a", "a"], ["application/json"] * 2, [None, "mail"], [2, 0], [1, 2, 1])


def test_columns_nobody_fills_are_not_sent() -> None:
    assert columns.of_drafts([Draft(ONE, "a", b"")])[7:] == ([],) * 11


def test_columns_somebody_fills_are_sent_whole() -> None:
    noon = datetime(2030, 1, 1, 12, tzinfo=UTC)
    full = Draft(
        ONE,
        "a",
        b"",
        headers={"b": "2", "a": "1"},
        key="k",
        delay=timedelta(seconds=1),
        at=noon,
        expires_in=timedelta(hours=1),
        expires_at=noon,
        correlation_id="c",
        causation_id=TWO,
        schedule="nightly",
        manual=True,
        join_id=THREE,
    )

    result = columns.of_drafts([full, Draft(TWO, "a", b"")])

    assert result[7:] == (
        ['{"a":"1","b":"2"}', None],
        ["k", None],
        [timedelta(seconds=1), None],
        [noon, None],
        [timedelta(hours=1), None],
        [noon, None],
        ["c", None],
        [TWO, None],
        ["nightly", None],
        [True, None],
        [THREE, None],
    )


def test_scans_name_the_place_of_their_want() -> None:
    groups, limits, places, levels, sinces = columns.of_wants(
        [ClaimRequest("a", 5, ALL_LEVELS[:2]), ClaimRequest("b", 7, ())]
    )

    assert (groups, limits) == (["a", "b"], [5, 7])
    assert (places, levels, sinces) == ([1, 1], [0, 1], [None, None])


def test_what_postgresql_cannot_store_is_spelled_out() -> None:
    assert columns.clean("a\x00b") == "a\\x00b"
    assert columns.clean("half \ud83d of it") == "half \\ud83d of it"
    assert columns.clean("naïve 🦉") == "naïve 🦉"


def test_verdicts_are_cleaned_where_they_hold_text() -> None:
    failure = Failure("error", "bad\x00", "trace\x00")
    batch = [
        Settlement(Claim(1, 2, MESSAGE), Retry(timedelta(seconds=3), failure)),
        Settlement(Claim(4, 5, MESSAGE), Done("out\x00")),
    ]

    result = columns.of_settlements(list(reversed(batch)))
    seqs, epochs, ids, names, _keeps, _tooks, delays, kinds, errors, tracebacks, outputs, places, causes = result

    assert (seqs, epochs, ids) == ([1, 4], [2, 5], [MESSAGE, MESSAGE])
    assert (names, places) == (["retry", "done"], [1, 0])
    assert delays == [timedelta(seconds=3), timedelta()]
    assert (kinds, errors) == (["error", None], ["bad\\x00", None])
    assert (tracebacks, outputs) == (["trace\\x00", None], [None, "out\\x00"])
    assert causes == []


def test_only_what_is_buried_has_a_cause() -> None:
    batch = [
        Settlement(Claim(2, 1, MESSAGE), Bury(Failure("error", "order 7 lost"))),
        Settlement(Claim(1, 1, MESSAGE), Retry(timedelta(), Failure("error", "order 7 lost"))),
    ]

    *_, causes = columns.of_settlements(batch)

    assert causes == [None, fingerprint("error", "order 8 lost")]


def test_alike_mappings_are_written_alike() -> None:
    assert written_mapping({"b": "2", "a": "1"}) == written_mapping({"a": "1", "b": "2"})
    assert read_mapping('{"a":"1"}') == {"a": "1"}
