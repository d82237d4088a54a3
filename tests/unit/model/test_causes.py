"""What libraries say when something fails: which of it is one cause, and which is another."""

import pytest

from mainspring.model.fingerprint import fingerprint, generalised

# ruff: noqa: E501, ISC004 - what libraries say is as long as it is
_POOL = "ConnectionError: HTTPSConnectionPool(host='api.example.com', port=443): Max retries exceeded with url: "
_NEW = "(Caused by NewConnectionError('<urllib3.connection.HTTPSConnection object at {}>: "
_SQL = "\n[SQL: INSERT INTO users (email) VALUES (%(email)s)]\n[parameters: {}]\n(Background on this error at: https://sqlalche.me/e/20/gkpj)"
_SEEN = "\n    For further information visit https://errors.pydantic.dev/2.7/v/"

SAME = {
    "psycopg: a key that is there already": (
        'UniqueViolation: duplicate key value violates unique constraint "users_email_key"\n'
        "DETAIL:  Key (email)=(ann@example.org) already exists.",
        'UniqueViolation: duplicate key value violates unique constraint "users_email_key"\n'
        "DETAIL:  Key (email)=(Bob (the builder)) already exists.",
    ),
    "psycopg: a row that does not fit": (
        'NotNullViolation: null value in column "amount" of relation "orders" violates not-null constraint\n'
        "DETAIL:  Failing row contains (17, null, Ann (Berlin), 2026-01-01 00:00:00+00).",
        'NotNullViolation: null value in column "amount" of relation "orders" violates not-null constraint\n'
        "DETAIL:  Failing row contains (18, null, Bob, null).",
    ),
    "psycopg: where in the statement": (
        'UndefinedColumn: column "sum" does not exist\nLINE 1: SELECT sum FROM orders WHERE customer = ann\n          ^',
        'UndefinedColumn: column "sum" does not exist\nLINE 3: ...sum FROM orders WHERE customer = bob AND x\n     ^',
    ),
    "psycopg: a server that is away": (
        'OperationalError: connection failed: connection to server at "10.0.0.1", port 5432 failed: Connection refused',
        'OperationalError: connection failed: connection to server at "::1", port 6432 failed: Connection refused',
    ),
    "psycopg: text that is no number": (
        'InvalidTextRepresentation: invalid input syntax for type integer: "abc"',
        'InvalidTextRepresentation: invalid input syntax for type integer: "x y"',
    ),
    "asyncpg: a deadlock": (
        "DeadlockDetectedError: deadlock detected\n"
        "DETAIL:  Process 11 waits for ShareLock on transaction 7; blocked by process 12.",
        "DeadlockDetectedError: deadlock detected\n"
        "DETAIL:  Process 9 waits for ShareLock on transaction 800; blocked by process 3.",
    ),
    "asyncpg: an argument": (
        "DataError: invalid input for query argument $1: 'abc' ('str' object cannot be interpreted as an integer)",
        "DataError: invalid input for query argument $1: 'd' ('str' object cannot be interpreted as an integer)",
    ),
    "SQLAlchemy: parameters": (
        "IntegrityError: (psycopg.errors.UniqueViolation) duplicate key" + _SQL.format("{'email': 'a', 'tags': ['x']}"),
        "IntegrityError: (psycopg.errors.UniqueViolation) duplicate key" + _SQL.format("{'email': None}"),
    ),
    "MySQL: a duplicate": (
        "IntegrityError: (1062, \"Duplicate entry 'ann' for key 'users.email'\")",
        "IntegrityError: (1062, \"Duplicate entry 'bob' for key 'users.email'\")",
    ),
    "asyncio: addresses": (
        "ConnectionRefusedError: [Errno 111] Connect call failed ('127.0.0.1', 5432)",
        "ConnectionRefusedError: [Errno 111] Connect call failed ('::1', 5433, 0, 0)",
    ),
    "httpx: another URL": (
        "HTTPStatusError: Client error '404 Not Found' for url 'https://api.example.com/orders/17'\n"
        "For more information check: https://developer.mozilla.org/en-US/docs/Web/HTTP/Status/404",
        "HTTPStatusError: Client error '404 Not Found' for url 'https://api.example.com/orders/abc?x=1'\n"
        "For more information check: https://developer.mozilla.org/en-US/docs/Web/HTTP/Status/404",
    ),
    "requests: another URL": (
        "HTTPError: 500 Server Error: Internal Server Error for url: https://api.example.com/v1/orders/17?token=abc",
        "HTTPError: 500 Server Error: Internal Server Error for url: https://api.example.com/v1/orders/9",
    ),
    "requests: another object": (
        _POOL + "/v1/a/17 " + _NEW.format("0x7f31") + "Failed to establish a new connection: [Errno 111] refused'))",
        _POOL + "/v1/a/4 " + _NEW.format("0x99ab") + "Failed to establish a new connection: [Errno 111] refused'))",
    ),
    "json: another place": (
        "JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
        "JSONDecodeError: Expecting value: line 12 column 3 (char 170)",
    ),
    "codecs: another byte": (
        "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
        "UnicodeDecodeError: 'utf-8' codec can't decode byte 0x80 in position 17: invalid start byte",
    ),
    "pydantic: another input": (
        "ValidationError: 1 validation error for Order\namount\n  Input should be a valid integer, unable to parse "
        f"string as an integer [type=int_parsing, input_value='abc', input_type=str]{_SEEN}int_parsing",
        "ValidationError: 1 validation error for Order\namount\n  Input should be a valid integer, unable to parse "
        f"string as an integer [type=int_parsing, input_value='it\\'s', input_type=str]{_SEEN}int_parsing",
    ),
    "pydantic: an input that is cut": (
        f"ValidationError: 1 validation error for Order\namount\n  Field required [type=missing, "
        f"input_value={{'id': 1, 'description': ...'currency': 'EUR'}}, input_type=dict]{_SEEN}missing",
        f"ValidationError: 1 validation error for Order\namount\n  Field required [type=missing, "
        f"input_value={{'id': 7, 'lines': [{{'a': []}}]}}, input_type=dict]{_SEEN}missing",
    ),
    "pydantic: another element": (
        "ValidationError: 1 validation error for Order\nlines.0.amount\n  Field required",
        "ValidationError: 1 validation error for Order\nlines.17.amount\n  Field required",
    ),
    "msgspec: another element": (
        "Unreadable: Expected `int`, got `str` - at `$.lines[0].amount`",
        "Unreadable: Expected `int`, got `str` - at `$.lines[17].amount`",
    ),
    "boto: another request": (
        "ClientError: An error occurred (SlowDown) when calling the PutObject operation (reached max retries: 4): "
        "Please reduce your request rate. (Request ID: QXZWABCD, Extended Request ID: ab+cd/ef==)",
        "ClientError: An error occurred (SlowDown) when calling the PutObject operation (reached max retries: 2): "
        "Please reduce your request rate. (Request ID: 9AKDXYZQ, Extended Request ID: zz/yy+xx==)",
    ),
    "stripe: another customer": (
        "InvalidRequestError: Request req_8Fh2kQ: No such customer: 'cus_9s6XKzkNRiz8i3'",
        "InvalidRequestError: Request req_AbCdEfGhIj: No such customer: 'cus_NffrFeUfNVxHib'",
    ),
    "stripe: another amount": (
        "CardError: Amount must be at least €0.50, was €-3",
        "CardError: Amount must be at least €1,000.50, was €12.40",
    ),
    "Django: a value that is none": (
        "ValidationError: ['“abc” is not a valid UUID.']",
        "ValidationError: ['“x y z” is not a valid UUID.']",
    ),
    "Django: another object": (
        "RuntimeError: cannot ship <Order: Ann's order>",
        "RuntimeError: cannot ship <Order: Bob's order>",
    ),
    "lists of any length": (
        "ValueError: unknown skus ['a', 'b', 'c'] in {'id': 7, 'paid': True, 'tags': []}",
        "ValueError: unknown skus ['d'] in {'id': 'x', 'lines': [{'sku': None}]}",
    ),
    "dates in words": (
        "ValueError: token expired at Mon, 16 Nov 2026 15:33:55 GMT",
        "ValueError: token expired at Tue, 01 Dec 2026 05:03:05 GMT",
    ),
    "instants": (
        "ValueError: not before datetime.datetime(2026, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)",
        "ValueError: not before datetime.datetime(2026, 11, 16, 15, 33, 55, 1234, tzinfo=datetime.timezone.utc)",
    ),
    "instants in ISO 8601": (
        "ValueError: not before 2026-01-01T00:00:00Z",
        "ValueError: not before 2026-11-16 15:33:55.123+01:00",
    ),
    "addresses of the sixth version": (
        "TimeoutError: no answer from fe80::1:2",
        "TimeoutError: no answer from 2001:db8::ff00:42:8329",
    ),
    "tokens": (
        "RuntimeError: cannot verify eyJhbGciOiJIUzI1NiJ9.e30.abcDEF",
        "RuntimeError: cannot verify eyJhbGciOiJub25lIn0.eyJhIjoxfQ.xyz_XYZ",
    ),
    "ids of many letters": (
        "LookupError: no session V1StGXR8_Z5jdHi6B-myT",
        "LookupError: no session aBcDeFgHiJ-KlMnOp7qRs",
    ),
    "temporary files": (
        "FileNotFoundError: [Errno 2] No such file or directory: /tmp/tmpabcdef/report",
        "FileNotFoundError: [Errno 2] No such file or directory: /tmp/tmpxyzxyz/invoice",
    ),
    "SMTP: another address": (
        "SMTPRecipientsRefused: {'ann@example.org': (550, b'5.1.1 <ann@example.org>: rejected')}",
        "SMTPRecipientsRefused: {'bob@example.org': (550, b\"5.1.1 <bob@example.org>: it's rejected\")}",
    ),
    "stripe: another request with a body": (
        'CardError: Request req_1a2b: {"error": {"code": "card_declined", "charge": "ch_17"}}',
        'CardError: Request req_9z8y: {"error": {"code": "card_declined", "charge": "ch_18"}}',
    ),
    "keys that hold an id": ("KeyError: 'order_17'", "KeyError: 'order_4711'"),
    "keys that are text": ("KeyError: 'Ann Smith, Berlin'", "KeyError: 'Bob Miller, Bonn'"),
    "signs": ("ValueError: balance is -5", "ValueError: balance is +17"),
}

DIFFERENT = {
    "keys": ("KeyError: 'amount'", "KeyError: 'currency'"),
    "keys within": ("RuntimeError: failed: KeyError('amount')", "RuntimeError: failed: KeyError('currency')"),
    "attributes": (
        "AttributeError: 'NoneType' object has no attribute 'id'",
        "AttributeError: 'NoneType' object has no attribute 'name'",
    ),
    "what has no attribute": (
        "AttributeError: 'NoneType' object has no attribute 'id'",
        "AttributeError: 'Order' object has no attribute 'id'",
    ),
    "modules": ("ModuleNotFoundError: No module named 'yaml'", "ModuleNotFoundError: No module named 'boto3'"),
    "imports": (
        "ImportError: cannot import name 'a' from 'shop' (/srv/shop.py)",
        "ImportError: cannot import name 'a' from 'till' (/srv/till.py)",
    ),
    "names": ("NameError: name 'x' is not defined", "NameError: name 'y' is not defined"),
    "arguments": (
        "TypeError: f() missing 2 required positional arguments: 'a' and 'b'",
        "TypeError: f() missing 2 required positional arguments: 'a' and 'c'",
    ),
    "operands": (
        "TypeError: unsupported operand type(s) for +: 'int' and 'str'",
        "TypeError: unsupported operand type(s) for +: 'int' and 'NoneType'",
    ),
    "columns": ('UndefinedColumn: column "a" does not exist', 'UndefinedColumn: column "b" does not exist'),
    "relations": (
        'UndefinedTableError: relation "a" does not exist',
        'UndefinedTableError: relation "b" does not exist',
    ),
    "constraints": (
        'IntegrityError: insert or update on table "o" violates foreign key constraint "o_user_id_4f7a1b2c_fk_user"',
        'IntegrityError: insert or update on table "o" violates foreign key constraint "o_shop_id_9e0d3c4b_fk_shop"',
    ),
    "columns of a key": (
        "UniqueViolation: duplicate key\nDETAIL:  Key (email)=(a) already exists.",
        "UniqueViolation: duplicate key\nDETAIL:  Key (tenant, name)=(a, b) already exists.",
    ),
    "SQLSTATEs": ("DatabaseError: refused (SQLSTATE 40001)", "DatabaseError: refused (SQLSTATE 40P01)"),
    "SQLSTATEs as fields": ("DatabaseError: sqlstate=23505", "DatabaseError: sqlstate=23503"),
    "MySQL's numbers": (
        "OperationalError: (1213, 'Deadlock found when trying to get lock')",
        "OperationalError: (1205, 'Lock wait timeout exceeded')",
    ),
    "MySQL's keys": (
        "IntegrityError: (1062, \"Duplicate entry 'ann' for key 'users.email'\")",
        "IntegrityError: (1062, \"Duplicate entry 'ann' for key 'users.name'\")",
    ),
    "Oracle's numbers": ("DatabaseError: ORA-00942: no table", "DatabaseError: ORA-00001: no table"),
    "HTTP": ("RuntimeError: HTTP 500", "RuntimeError: HTTP 401"),
    "statuses": ("RuntimeError: status code 500 from billing", "RuntimeError: status code 429 from billing"),
    "statuses as fields": ("RuntimeError: status_code=500", "RuntimeError: status_code=404"),
    "statuses with their words": (
        "RuntimeError: billing said 502 Bad Gateway",
        "RuntimeError: billing said 504 Gateway Timeout",
    ),
    "httpx": (
        "HTTPStatusError: Client error '401 Unauthorized' for url 'https://a.example/1'",
        "HTTPStatusError: Client error '403 Forbidden' for url 'https://a.example/1'",
    ),
    "requests": (
        "HTTPError: 401 Client Error: for url: https://a.example/1",
        "HTTPError: 403 Client Error: for url: https://a.example/1",
    ),
    "aiohttp": (
        "ClientResponseError: 500, message='x', url='https://a.example/1'",
        "ClientResponseError: 503, message='x', url='https://a.example/1'",
    ),
    "boto's codes": (
        "ClientError: An error occurred (NoSuchKey) when calling the GetObject operation: gone",
        "ClientError: An error occurred (AccessDenied) when calling the GetObject operation: gone",
    ),
    "boto's statuses": (
        "ClientError: An error occurred (403) when calling the HeadObject operation",
        "ClientError: An error occurred (404) when calling the HeadObject operation",
    ),
    "errnos": (
        "OSError: [Errno 111] Connect call failed ('127.0.0.1', 5432)",
        "OSError: [Errno 113] Connect call failed ('127.0.0.1', 5432)",
    ),
    "errnos below nought": ("ConnectError: [Errno -2] Name", "ConnectError: [Errno -3] Name"),
    "errnos within": (
        _POOL + "/a " + _NEW.format("0x7f31") + "Failed: [Errno 111] x'))",
        _POOL + "/a " + _NEW.format("0x7f31") + "Failed: [Errno 113] x'))",
    ),
    "exit codes": (
        "ProcessDied: the process ended with exit code 1",
        "ProcessDied: the process ended with exit code 137",
    ),
    "signals": ("ProcessDied: the process was killed by signal 40", "ProcessDied: the process was killed by signal 41"),
    "codecs": (
        "UnicodeDecodeError: 'utf-8' codec can't decode byte",
        "UnicodeDecodeError: 'ascii' codec can't decode byte",
    ),
    "pydantic's fields": (
        "ValidationError: 1 validation error for Order\namount\n  Field required [type=missing, input_value={}, input_type=dict]",
        "ValidationError: 1 validation error for Order\ncurrency\n  Field required [type=missing, input_value={}, input_type=dict]",
    ),
    "pydantic's types": ("ValidationError: amount [type=missing]", "ValidationError: amount [type=int_parsing]"),
    "msgspec's fields": (
        "Unreadable: Expected `int`, got `str` - at `$.amount`",
        "Unreadable: Expected `int`, got `str` - at `$.count`",
    ),
    "msgspec's types": ("Unreadable: Expected `int`, got `str`", "Unreadable: Expected `int`, got `null`"),
    "msgspec's missing fields": (
        "Unreadable: Object missing required field `amount`",
        "Unreadable: Object missing required field `count`",
    ),
    "Django's fields": (
        "ValidationError: {'email': ['Enter a valid email address.']}",
        "ValidationError: {'phone': ['Enter a valid email address.']}",
    ),
    "Django's words": (
        "ValidationError: {'email': ['Enter a valid email address.']}",
        "ValidationError: {'email': ['This field is required.']}",
    ),
    "Django's keywords": (
        "FieldError: Cannot resolve keyword 'a' into field.",
        "FieldError: Cannot resolve keyword 'b' into field.",
    ),
    "codes in a body": (
        'CardError: Request req_1a2b: {"error": {"code": "card_declined", "charge": "ch_17"}}',
        'CardError: Request req_1a2b: {"error": {"code": "expired_card", "charge": "ch_17"}}',
    ),
    "statuses after their phrase's kind": ("HTTPException: 404: gone", "HTTPException: 410: gone"),
    "fields of a body": (
        "HTTPException: 422: [{'loc': ('body', 'amount'), 'msg': 'field required', 'type': 'value_error.missing'}]",
        "HTTPException: 422: [{'loc': ('body', 'currency'), 'msg': 'field required', 'type': 'value_error.missing'}]",
    ),
    "gRPC": (
        'AioRpcError: <AioRpcError of RPC that terminated with:\n\tstatus = StatusCode.UNAVAILABLE\n\tdetails = "x"',
        'AioRpcError: <AioRpcError of RPC that terminated with:\n\tstatus = StatusCode.NOT_FOUND\n\tdetails = "x"',
    ),
    "fields that are named": (
        "FieldDoesNotExist: Order has no field named 'total'",
        "FieldDoesNotExist: Order has no field named 'sum'",
    ),
    "kinds with a digit": ("S3UploadFailedError: no", "EC2LaunchFailedError: no"),
    "words with a digit": ("ValueError: not in base64", "ValueError: not in utf8"),
}


@pytest.mark.parametrize("pair", SAME.values(), ids=SAME)
def test_one_cause_has_one_fingerprint(pair: tuple[str, str]) -> None:
    one, another = pair

    assert generalised(one) == generalised(another)
    assert fingerprint("error", one) == fingerprint("error", another)


@pytest.mark.parametrize("pair", DIFFERENT.values(), ids=DIFFERENT)
def test_another_cause_has_another_fingerprint(pair: tuple[str, str]) -> None:
    one, another = pair

    assert generalised(one) != generalised(another)
