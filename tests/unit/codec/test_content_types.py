"""Content types: what a codec may call its own, and the version that travels in one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.model.errors import BadOption, Unreadable
from mainspring.storage.codec.contract import check_content_type, is_json, parted, stamped, with_version_of


@pytest.mark.parametrize(
    ("content_type", "media", "version"),
    [
        ("application/json", "application/json", 1),
        ("application/json; version=2", "application/json", 2),
        ("application/json;version=12", "application/json", 12),
        ('Application/JSON ; charset=utf-8; Version="3"', "application/json", 3),
        ("application/json; version=2; charset=utf-8", "application/json", 2),
        ("application/json; conversion=2", "application/json", 1),
        ("application/vnd.shop+json", "application/vnd.shop+json", 1),
        ("none such", "none such", 1),
        ("", "", 1),
    ],
)
def test_a_content_type_is_parted_into_type_and_version(content_type: str, media: str, version: int) -> None:
    assert parted(content_type) == (media, version)


@pytest.mark.parametrize("version", ["0", "-1", "two", "", "1.5", "٣", "9" * 40])
def test_a_version_that_is_no_number_is_unreadable(version: str) -> None:
    with pytest.raises(Unreadable, match="has a version that is no whole number from 1"):
        parted(f"application/json; version={version}")


@given(st.text())
def test_whatever_is_stored_is_parted_or_unreadable(content_type: str) -> None:
    try:
        _, version = parted(content_type)
    except Unreadable:
        return

    assert version >= 1


@pytest.mark.parametrize("version", [1, 2, 10_000])
def test_what_was_stamped_is_read_again(version: int) -> None:
    assert parted(stamped("application/msgpack", version)) == ("application/msgpack", version)


def test_the_first_version_has_no_mark() -> None:
    assert stamped("application/json", 1) == "application/json"
    assert stamped("application/json", 2) == "application/json; version=2"


@pytest.mark.parametrize(
    ("content_type", "other", "kept"),
    [
        ("application/json; version=3", "application/msgpack", "application/json"),
        ("application/json", "application/json; version=2", "application/json; version=2"),
        ("application/octet-stream", "application/json; version=2", "application/octet-stream"),
        ("application/json; version=3", "application/json; version=x", "application/json"),
    ],
)
def test_a_replacement_is_of_the_version_it_replaces(content_type: str, other: str, kept: str) -> None:
    assert with_version_of(content_type, other) == kept


@pytest.mark.parametrize(
    ("media", "json"),
    [
        ("application/json", True),
        ("text/x-json", True),
        ("application/vnd.shop+json", True),
        ("application/json+zlib", False),
        ("application/jsonseq", False),
        ("application/msgpack", False),
    ],
)
def test_json_has_many_names(media: str, json: bool) -> None:
    assert is_json(media) is json


@pytest.mark.parametrize(
    "content_type", ["application/msgpack", "application/vnd.shop.v2+json", "x/y", "a1/b!#$&^_.+-"]
)
def test_a_codec_may_have_any_proper_content_type(content_type: str) -> None:
    assert check_content_type(content_type, "it") == content_type


@pytest.mark.parametrize(
    ("content_type", "message"),
    [
        (None, "it is None: it must be text, as in 'application/msgpack'"),
        (b"a/b", "it is b'a/b': it must be text, as in 'application/msgpack'"),
        ("msgpack", "it is 'msgpack': write a type and a subtype in lower case, as in 'application/msgpack'"),
        ("App/x", "it is 'App/x': write a type and a subtype in lower case, as in 'application/msgpack'"),
        ("a/b c", "it is 'a/b c': write a type and a subtype in lower case, as in 'application/msgpack'"),
        ("a/b/c", "it is 'a/b/c': write a type and a subtype in lower case, as in 'application/msgpack'"),
        ("a/b\n", "it is 'a/b\\n': write a type and a subtype in lower case, as in 'application/msgpack'"),
        ("", "it is '': write a type and a subtype in lower case, as in 'application/msgpack'"),
        ("a/b; v=1", "it is 'a/b; v=1': leave the parameters out, the version is added by @app.message"),
        (
            "application/json",
            "it is 'application/json', which is built in: choose another, as in 'application/vnd.shop+json'",
        ),
        (
            "application/octet-stream",
            "it is 'application/octet-stream', which is built in: choose another, as in 'application/vnd.shop+json'",
        ),
    ],
)
def test_an_improper_content_type_is_refused(content_type: object, message: str) -> None:
    with pytest.raises(BadOption) as refused:
        check_content_type(content_type, "it")

    assert str(refused.value) == message
