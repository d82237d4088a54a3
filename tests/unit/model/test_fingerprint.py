"""One fingerprint for what differs only in what it speaks of."""

import pytest

from mainspring.model.fingerprint import fingerprint, generalised


@pytest.mark.parametrize(
    ("error", "another"),
    [
        ("order 17 not found", "order 4711 not found"),
        ("timeout after 2.5 s", "timeout after 30 s"),
        ("no user 6f1c2c1e-93a4-4c07-9f2e-0c7a8f3b1d11", "no user 0190c3f4-7b7e-7d11-8f00-abcdefabcdef"),
        ("KeyError: 'order 17'", "KeyError: 'order 18'"),
        ('unknown tenant "acme"', 'unknown tenant "globex, inc."'),
        ("can't reach `db-1`", "can't reach `db-2`"),
        ("<Order object at 0x7f3c2a10>", "<Order object at 0x10aa55ff>"),
        ("connect to 10.0.0.1:5432 failed", "connect to 192.168.17.4:6432 failed"),
        ("bad hash deadbeefcafe", "bad hash 0123456789ab"),
        ("mail to ann@example.org bounced", "mail to bob.b+x@mail.example.com bounced"),
        ("ids [1, 2, 3] are gone", "ids [4] are gone"),
        ("GET /v1/orders?id=1&token=abc failed", "GET /v1/orders?id=9 failed"),
        ("charge ch_1NkXy7 declined", "charge ch_9AbCd3 declined"),
        ("first line\n  second", "first line second"),
    ],
)
def test_what_differs_from_message_to_message_is_left_out(error: str, another: str) -> None:
    assert generalised(error) == generalised(another)
    assert fingerprint("error", error) == fingerprint("error", another)


@pytest.mark.parametrize(
    ("error", "another"),
    [
        ("order 17 not found", "invoice 17 not found"),
        ("ValueError: bad", "TypeError: bad"),
        ("can't open", "can't close"),
        ("", "boom"),
    ],
)
def test_what_went_wrong_is_told_apart(error: str, another: str) -> None:
    assert fingerprint("error", error) != fingerprint("error", another)


def test_the_kind_of_a_failure_is_part_of_its_cause() -> None:
    assert fingerprint("error", "boom") != fingerprint("timeout", "boom")


def test_a_fingerprint_is_short_and_the_same_everywhere() -> None:
    assert fingerprint("error", "order 17 not found") == fingerprint("error", "order 18 not found")
    assert fingerprint("error", "boom") == "7cc94fdfa6d8"


def test_no_text_is_too_odd_or_too_long() -> None:
    for odd in ("\ud800", "\x00", "'" * 10_000, "9" * 100_000, "a" * 100_000 + "b", "?" * 50_000):
        assert len(fingerprint("error", odd)) == 12


def test_only_the_beginning_of_a_long_error_counts() -> None:
    assert fingerprint("error", "a" * 2_000 + " x") == fingerprint("error", "a" * 2_000 + " y")


@pytest.mark.parametrize(
    "error",
    [
        "login failed password={}",
        "login failed password = {}, again",
        "login failed iban={}",
        "login failed password: {} word",
        'login failed {{\\"password\\": \\"{}\\"}}',
        "login failed passwords=[a, {}]",
        "login failed password=b'a {}'",
        "login failed token => {}",
        "Authorization: Token {}",
        "Cookie: a=b; session={}\nfailed",
        "wrong value for field 'password': {}",
        "wrong value for field 'password' = {}",
        "RuntimeError('password={}')",
        "ValidationError: {{'password': ['{} is too short']}}",
        "no column 'token', '{}'",
        "-----BEGIN PRIVATE KEY-----\n{}",
    ],
)
def test_a_value_that_is_masked_cannot_be_guessed_by_its_fingerprint(error: str) -> None:
    assert fingerprint("error", error.format("hunter")) == fingerprint("error", error.format("dragon"))


@pytest.mark.parametrize(
    ("error", "another"),
    [
        ("RuntimeError: timeout", "RuntimeError: refused"),
        ("InvalidTokenError: expired", "InvalidTokenError: not yet valid"),
        ("payment failed: declined", "payment failed: unreachable"),
        ("password=x was refused", "password=x was accepted"),
        ("auth::login failed", "auth::logout failed"),
    ],
)
def test_what_is_no_value_of_a_secret_still_tells_causes_apart(error: str, another: str) -> None:
    assert fingerprint("error", error) != fingerprint("error", another)


def test_colons_without_end_are_no_trouble() -> None:
    for odd in ("a:" * 5_000, "token:" * 5_000, "password=[" * 5_000, "password='\\" * 5_000):
        assert len(fingerprint("error", odd)) == 12
