"""No password of a URL is ever repeated, whatever was mistaken for what."""

import pytest

from mainspring import Mainspring
from mainspring.app.options import length
from mainspring.model.errors import BadOption, MainspringError, StorageError
from mainspring.model.redaction import redacted


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://ann:s3cret@db/shop", "postgresql://…@db/shop"),
        ("'postgresql://ann:s3c@r/e:t@db/shop' is no name", "'postgresql://…@db/shop' is no name"),
        ("'postgresql://ann:s3 cr@et@db/shop' is no name", "'postgresql://…@db/shop' is no name"),
        ('"postgresql://ann:s3\'cret@db/shop" is no name', '"postgresql://…@db/shop" is no name'),
        ("redis://:s3cret@db", "redis://…@db"),
        ("postgresql://ann@corp:s3cret@db/shop", "postgresql://…@db/shop"),
        ("postgresql://db/shop?user=ann&password=s3cret&x=1", "postgresql://db/shop?user=ann&password=…&x=1"),
        ("postgresql:/ann:s3cret@db/shop is no file", "postgresql://…@db/shop is no file"),
        ("host=db PASSWORD=s3cret", "host=db PASSWORD=…"),
        ("host=db password=s3cret dbname=shop", "host=db password=… dbname=shop"),
        ("host=db password = s3cret dbname=shop", "host=db password = … dbname=shop"),
        ("host=db password='s3 \\'cret' dbname=shop", "host=db password=… dbname=shop"),
        ('PGPASSWORD="s3 cret" psql', "PGPASSWORD=… psql"),
        ("sslpassword=s3cret passwd=s3cret", "sslpassword=… passwd=…"),
        ("ALTER ROLE ann PASSWORD 's3''cret' LOGIN", "ALTER ROLE ann PASSWORD … LOGIN"),
        ("Authorization: Bearer s3cret.e30.abc\nHost: db", "Authorization: …\nHost: db"),
        ("{'Authorization': 'Basic czNjcmV0', 'Host': 'db'}", "{'Authorization': …, 'Host': 'db'}"),
        ("sent Bearer s3cret.e30.abc and failed", "sent Bearer … and failed"),
        ('body {"user": "ann", "password": "s3\\"cret", "x": 1}', 'body {"user": "ann", "password": …, "x": 1}'),
        ('body {\\"password\\": \\"s3cret\\", \\"x\\": 1}', 'body {\\"password\\": …, \\"x\\": 1}'),
        ("Password: s3cret", "Password: …"),
        ("X-Api-Key: s3cret\nclient_secret=s3cret", "X-Api-Key: …\nclient_secret=…"),
        ("GET /reset?token=s3cret&x=1", "GET /reset?token=…&x=1"),
        ("Set-Cookie: session=s3cret; Path=/", "Set-Cookie: …"),
        ("https://ghp_s3cret4711s3cret0815@example.org/x", "https://…@example.org/x"),
    ],
)
def test_a_password_is_taken_out(text: str, shown: str) -> None:
    assert redacted(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "write sqlite:///shop.db or postgresql://user@host/shop, then @app.consumer(…)",
        "write postgresql://user:password@host:5432/database",
        "'postgresql://db:5432/shop' is paused by 'ann@host'",
        "http://localhost:8000/orders\nby ann@host",
        "an address: ann@example.org",
        'password authentication failed for user "ann"',
        "fe_sendauth: no password supplied",
        "PasswordTooShort: eight letters at least",
        "InvalidTokenError: expired",
        "Unexpected token: }",
        "bearer authentication is not supported",
        "secretary=ann, tokens=512, monkey: 3",
    ],
)
def test_what_holds_no_password_stays(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.timeout(60)  # what takes the square of its length would need hours
@pytest.mark.parametrize(
    "odd",
    [
        "://a:",
        "password",
        "password='",
        "secret=[",
        'token="',
        "PASSWORD 'a''",
        "bearer a",
        "://" + "a" * 30,
    ],
)
def test_hostile_text_comes_to_an_end(odd: str) -> None:
    text = odd * (1_000_000 // len(odd))

    assert redacted(f"{text} postgresql://ann:s3cret@db/shop").count("s3cret") == 0


@pytest.mark.parametrize("kind", [MainspringError, BadOption, StorageError])
def test_every_error_is_without_it(kind: type[MainspringError]) -> None:
    error = kind("no 'postgresql://ann:s3cret@db/shop' here")

    assert str(error) == "no 'postgresql://…@db/shop' here"


@pytest.mark.parametrize("option", ["name", "namespace", "schema", "grace", "keep", "payload_limit", "durable"])
@pytest.mark.parametrize("tail", ["", "?" + "x" * 300])
def test_an_option_that_is_a_url_is_quoted_without_it(option: str, tail: str) -> None:
    options = {option: f"postgresql://ann:{'s3cret' * 10}@db/shop{tail}"}

    with pytest.raises(BadOption) as refused:
        Mainspring("memory://", **options)  # type: ignore[arg-type]

    assert "s3cret" not in str(refused.value)


def test_a_topic_and_a_length_of_time_are_quoted_without_it() -> None:
    app = Mainspring("memory://")

    with pytest.raises(BadOption) as topic:
        app.consumer("postgresql://ann:s3cret@db/shop")(lambda _: None)
    with pytest.raises(BadOption) as span:
        length("postgresql://ann:s3cret@db/shop", "delay")

    assert "s3cret" not in str(topic.value) + str(span.value)
