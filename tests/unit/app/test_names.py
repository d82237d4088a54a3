import pytest

from mainspring.app.names import (
    check_group,
    check_headers,
    check_name,
    check_namespace,
    check_pattern,
    check_schema,
    check_topic,
    tables,
)
from mainspring.model.errors import BadOption


@pytest.mark.parametrize("topic", ["a", "orders.placed", "orders-v2.placed_now", "Bestellungen.größer", "x" * 255])
def test_a_plain_topic_is_accepted(topic: str) -> None:
    assert check_topic(topic) == topic


@pytest.mark.parametrize(
    ("topic", "message"),
    [
        ("", "a topic is 1 to 255 characters, not 0: ''"),
        ("x" * 256, f"a topic is 1 to 255 characters, not 256: '{'x' * 40}…'"),
        ("orders placed", "topic 'orders placed' has white space or a control character: use '.', '-' or '_'"),
        ("orders\x00", "topic 'orders\\x00' has white space or a control character: use '.', '-' or '_'"),
        ("orders\ud800", "topic 'orders\\ud800' has white space or a control character: use '.', '-' or '_'"),
        ("orders/placed", "topic 'orders/placed' has a '/': separate segments by '.', as in 'orders.placed'"),
        (
            "orders..placed",
            "topic 'orders..placed' has an empty segment: write one dot between segments, none at the ends",
        ),
        (".orders", "topic '.orders' has an empty segment: write one dot between segments, none at the ends"),
        (
            "orders.*",
            "topic 'orders.*' has a wildcard: publish to a plain topic; `*` and `#` are for @app.consumer(…)",
        ),
        (
            "orders.#",
            "topic 'orders.#' has a wildcard: publish to a plain topic; `*` and `#` are for @app.consumer(…)",
        ),
        (5, "a topic is text like 'orders.placed', not 5"),
    ],
)
def test_a_topic_that_cannot_be_published_to_says_why(topic: str, message: str) -> None:
    with pytest.raises(BadOption) as refused:
        check_topic(topic)

    assert str(refused.value) == message


@pytest.mark.parametrize("pattern", ["orders.placed", "orders.*", "*", "#", "orders.#", "*.placed", "a.*.c.#"])
def test_wildcards_stand_for_whole_segments(pattern: str) -> None:
    assert check_pattern(pattern) == pattern


@pytest.mark.parametrize("pattern", ["orders*", "a.b*", "**"])
def test_a_star_inside_a_segment_is_refused(pattern: str) -> None:
    with pytest.raises(BadOption) as refused:
        check_pattern(pattern)

    assert str(refused.value) == (f"topic pattern {pattern!r}: `*` stands for one whole segment, as in 'orders.*'")


@pytest.mark.parametrize("pattern", ["orders#", "#.placed", "a.#.b", "##"])
def test_a_hash_that_is_not_the_last_segment_is_refused(pattern: str) -> None:
    with pytest.raises(BadOption) as refused:
        check_pattern(pattern)

    assert str(refused.value) == (
        f"topic pattern {pattern!r}: `#` stands for the rest and comes last, as in 'orders.#'"
    )


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (42, "key=42 must be text, not int: write str(…) around it"),
        ("", "key must be 1 to 200 characters, not 0: ''"),
        ("k" * 201, f"key must be 1 to 200 characters, not 201: '{'k' * 40}…'"),
        ("a\x00b", "key='a\\x00b' has a control character or a lone surrogate: remove it"),
        ("a\nb", "key='a\\nb' has a control character or a lone surrogate: remove it"),
        ("\udc00", "key='\\udc00' has a control character or a lone surrogate: remove it"),
    ],
)
def test_a_key_that_no_database_keeps_is_refused(key: object, message: str) -> None:
    with pytest.raises(BadOption) as refused:
        check_name(key, "key")

    assert str(refused.value) == message


@pytest.mark.parametrize("key", ["order:42", "with space", "k" * 200, "ключ", "a/b"])
def test_a_key_may_be_any_printable_text(key: str) -> None:
    assert check_name(key, "key") == key


def test_a_group_has_no_slash() -> None:
    with pytest.raises(BadOption, match=r"^group='a/b' has a '/': use '\.', '-' or '_'$"):
        check_group("a/b")


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ("a=b", "headers='a=b' must be a mapping of text to text"),
        ({"a": 1}, "header 'a': 1 must be text to text: write str(…) around it"),
        ({1: "a"}, "header 1: 'a' must be text to text: write str(…) around it"),
        ({"a": "\x00"}, "header 'a' is empty or has a NUL character, in its name or value: remove it"),
        ({"": "a"}, "header '' is empty or has a NUL character, in its name or value: remove it"),
        ({"a": "\ud800"}, "header 'a' holds a lone surrogate, which no database stores: remove it"),
    ],
)
def test_headers_are_text_to_text(headers: object, message: str) -> None:
    with pytest.raises(BadOption) as refused:
        check_headers(headers)

    assert str(refused.value) == message


def test_headers_are_copied() -> None:
    given = {"tenant": "größe"}

    checked = check_headers(given)

    assert checked == given
    assert checked is not given


@pytest.mark.parametrize("namespace", ["", "A", "-a", "a/b", "a b", "x" * 33, 5])
def test_a_namespace_is_short_and_plain(namespace: object) -> None:
    with pytest.raises(BadOption) as refused:
        check_namespace(namespace)

    assert str(refused.value) == (
        f"namespace={namespace!r} must be 1 to 32 of a-z, 0-9, '_' and '-', beginning with a letter or digit"
    )


@pytest.mark.parametrize("schema", ["", "1a", "Main", "a-b", 'a"; drop', "x" * 41, None])
def test_a_schema_is_a_plain_identifier(schema: object) -> None:
    with pytest.raises(BadOption) as refused:
        check_schema(schema)

    assert str(refused.value) == (f"schema={schema!r} must be 1 to 40 of a-z, 0-9 and '_', not beginning with a digit")


def test_a_namespace_has_tables_of_its_own() -> None:
    assert tables("shop", None) == "shop"
    assert tables("shop", "staging") == "shop-staging"
    assert len(tables("x" * 19, "y" * 32)) == 52


def test_tables_whose_name_would_be_cut_are_refused() -> None:
    with pytest.raises(BadOption) as refused:
        tables("s" * 20, "n" * 32)

    assert str(refused.value) == (
        "schema='ssssssssssssssssssss' (20 characters) and namespace='nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn' (32) name the "
        "tables together, with a dash between them: 53 characters, and the limit is 52; shorten one of them"
    )
