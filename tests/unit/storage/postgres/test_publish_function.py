"""What the migrations say about publishing from SQL, and what the library says about it."""

from importlib.resources import files

from mainspring import Options
from mainspring.storage.migrate import migrations
from mainspring.storage.postgres.names import PACKAGE

_STATEMENT = (files(PACKAGE) / "sql" / "publish.sql").read_text(encoding="utf-8")
_HEAD = "FUNCTION mainspring.publish_batch("
_DEFINING = [each for each in migrations(PACKAGE) if _HEAD in each.text]


def test_the_function_publishes_by_the_very_statement_of_the_library() -> None:
    newest = _DEFINING[-1].text

    said = newest[newest.index(_HEAD) :].split("RETURN QUERY\n", 1)[1].split(";\nEND\n", 1)[0]

    assert said == _STATEMENT, "sql/publish.sql has changed: replace mainspring.publish_batch in a new migration"


def test_the_functions_can_be_created_in_a_database_of_any_encoding() -> None:
    assert _DEFINING
    assert all(each.text.isascii() for each in _DEFINING)


def test_older_releases_work_on_a_schema_that_has_the_functions() -> None:
    assert not any(each.breaking for each in _DEFINING)


def test_the_limit_of_payloads_is_one_number_in_python_and_sql() -> None:
    limit = Options().payload_limit

    assert f"payload_limit integer NOT NULL DEFAULT {limit} " in _DEFINING[0].text
    assert f"(SELECT setting.payload_limit FROM mainspring.setting), {limit})" in _DEFINING[0].text
