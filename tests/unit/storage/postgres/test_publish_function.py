"""What the migrations say about publishing from SQL, and what the library says about it."""

from mainspring import Options
from mainspring.storage.migrations import migrations
from mainspring.storage.portable.statements import statements
from mainspring.storage.postgres.dialect import PACKAGE

_CALL = "mainspring.publish_one("
_DEFINING = [each for each in migrations(PACKAGE) if "FUNCTION mainspring.publish" in each.text]


def test_the_library_and_the_function_store_one_message_by_the_same_call() -> None:
    statement = statements(PACKAGE)["publish_one"]
    newest = [each.text for each in _DEFINING if "FUNCTION mainspring.publish_checked(" in each.text][-1]

    assert f"SELECT {_CALL}" in statement
    assert f"PERFORM FROM {_CALL}" in newest


def test_the_functions_can_be_created_in_a_database_of_any_encoding() -> None:
    assert _DEFINING
    assert all(each.text.isascii() for each in _DEFINING)


def test_older_releases_work_on_a_schema_that_has_the_functions() -> None:
    assert not any(each.breaking for each in _DEFINING)


def test_the_limit_of_payloads_is_one_number_in_python_and_sql() -> None:
    limit = Options().payload_limit
    [limited] = [each.text for each in migrations(PACKAGE) if "TABLE mainspring.setting" in each.text]

    assert f"payload_limit integer NOT NULL DEFAULT {limit} " in limited
    assert f"(SELECT setting.payload_limit FROM mainspring.setting), {limit})" in limited
