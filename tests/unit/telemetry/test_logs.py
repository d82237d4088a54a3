"""Log lines: one JSON object each, whatever is in them, and no password in any."""

import json
import logging
import sys
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from mainspring import JsonLines
from mainspring.telemetry.logs import Form, TextLines, lines

SECRET = "s3cret"
URL = f"postgresql://shop:{SECRET}@db.example.com/shop"


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("no words")


def line(text: str, *args: object, extra: dict[str, Any] | None = None, **known: Any) -> dict[str, Any]:
    """The line of one record, read."""
    record = logging.LogRecord("shop.orders", logging.WARNING, __file__, 1, text, args, known.pop("exc_info", None))
    vars(record).update(extra or {})
    written = JsonLines(**known).format(record)
    assert "\n" not in written
    read: dict[str, Any] = json.loads(written)
    return read


def test_a_line_says_when_how_grave_who_and_what() -> None:
    said = line("%d orders, %s", 3, "all of tea")

    assert said.pop("time").endswith("Z")
    assert said == {"level": "warning", "logger": "shop.orders", "message": "3 orders, all of tea"}


def test_what_is_known_of_the_message_comes_first_and_what_was_added_after_it() -> None:
    extra = {"order": 7, "group": "ship", "topic": "orders.placed", "attempt": 2, "key": None}

    said = line("late", extra=extra, worker="host:7")

    assert list(said)[4:] == ["worker", "group", "topic", "attempt", "order"]
    assert (said["worker"], said["group"], said["topic"], said["order"]) == ("host:7", "ship", "orders.placed", 7)


def test_a_line_that_is_written_within_a_trace_names_it() -> None:
    with TracerProvider(shutdown_on_exit=False).get_tracer("shop").start_as_current_span("checkout") as span:
        said = line("late")

    context = span.get_span_context()
    assert (said["trace_id"], said["span_id"]) == (f"{context.trace_id:032x}", f"{context.span_id:016x}")


def test_an_exception_is_a_field_of_its_own() -> None:
    try:
        raise ValueError(f"cannot reach {URL}")
    except ValueError:
        said = line("failed", exc_info=sys.exc_info())

    assert said["message"] == "failed"
    assert said["exception"].startswith("Traceback (most recent call last):\n")
    assert said["exception"].endswith("ValueError: cannot reach postgresql://…@db.example.com/shop")


def test_a_stack_that_was_asked_for_is_one_too() -> None:
    assert line("here", extra={"stack_info": "Stack (most recent call last):"})["stack"].startswith("Stack")


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (1.5, 1.5),
        (True, True),
        ({"url": URL, 7: ("a", None)}, {"url": "postgresql://…@db.example.com/shop", "7": ["a", None]}),
        (b"\x00", "b'\\x00'"),
        ("line\nbreak \ud800", "line\nbreak \ud800"),
        (Unprintable(), "unprintable Unprintable: RuntimeError"),
    ],
)
def test_whatever_is_added_has_a_form(value: object, written: object) -> None:
    assert line("late", extra={"value": value})["value"] == written


def test_one_value_that_cannot_be_written_does_not_lose_the_line() -> None:
    class Broken(dict[str, int]):
        def items(self) -> Any:
            raise RuntimeError("no items")

    said = line("all is well", extra={"broken": Broken(a=1), "huge": 10**5_000, "order": 7})

    assert said["message"] == "all is well"
    assert (said["broken"], said["huge"], said["order"]) == ("{'a': 1}", "unprintable int: ValueError", 7)


def test_what_nests_without_end_is_cut() -> None:
    endless: list[Any] = []
    endless.append(endless)

    said = line("late", extra={"value": endless})["value"]

    for _ in range(8):
        (said,) = said
    assert said == "[[...]]"


def test_neither_form_shows_the_password_of_a_url() -> None:
    record = logging.LogRecord("shop", logging.INFO, __file__, 1, "to %s, password=%s", (URL, SECRET), None)

    forms: tuple[Form, ...] = ("text", "json")
    for form in forms:
        written = lines(form).format(record)
        assert SECRET not in written
        assert "postgresql://" in written


def test_fields_that_are_secret_are_masked_whatever_they_hold() -> None:
    said = line(
        'refused {"password": "s3cret"}',
        extra={"api_key": "s3cret", "request": {"headers": {"Authorization": ["s3cret"]}, "tokens": 5}},
    )

    assert said["message"] == 'refused {"password": …}'
    assert said["api_key"] == "…"
    assert said["request"] == {"headers": {"Authorization": "…"}, "tokens": 5}


def test_a_line_for_people_has_the_time_and_who_says_it() -> None:
    record = logging.LogRecord("shop", logging.INFO, __file__, 1, "ready", (), None)

    assert TextLines().format(record)[8:] == " INFO shop: ready"


def test_a_record_of_text_is_one_line_whatever_its_message_holds() -> None:
    forged = "no such file\n12:00:00 INFO mainspring.worker: all is well\x1b[2J\r\x9b1A\u2028\u202e"
    record = logging.LogRecord("shop", logging.WARNING, __file__, 1, "failed: %s", (forged,), None)

    written = TextLines().format(record)

    told = "no such file\\n12:00:00 INFO mainspring.worker: all is well\\x1b[2J\\r\\x9b1A\\u2028\\u202e"
    assert written[8:] == f" WARNING shop: failed: {told}"


def test_no_line_below_a_record_can_look_like_another_record() -> None:
    try:
        raise ValueError(f"first\n12:00:00 INFO mainspring.worker: all is well\x1b[31m {URL}")
    except ValueError:
        record = logging.LogRecord("shop", logging.ERROR, __file__, 1, "failed", (), sys.exc_info())
    record.stack_info = "Stack (most recent call last):\n  here"

    first, *below = TextLines().format(record).split("\n")

    assert first[8:] == " ERROR shop: failed"
    assert {line[:4] for line in below} == {"  | "}
    read = [line[4:] for line in below]
    assert (read[0], read[-2:]) == ("Traceback (most recent call last):", ["Stack (most recent call last):", "  here"])
    assert "12:00:00 INFO mainspring.worker: all is well\\x1b[31m postgresql://…@db.example.com/shop" in read
    assert SECRET not in "".join(below)
