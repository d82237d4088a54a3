"""Statements are put together from parts, and spelled as their dialect writes them."""

import re
from importlib.resources import files

import pytest

from mainspring.storage.portable.statements import PACKAGE, Part, _expanded, load, statements

POSTGRES, SQLITE = "mainspring.storage.postgres", "mainspring.storage.sqlite"
_PART = re.compile(r"^-- part: ([A-Z_]+)\(", re.MULTILINE)


def _parts(package: str) -> set[str]:
    texts = [each.read_text() for each in (files(package) / "sql").iterdir() if each.name.endswith(".sql")]
    return {name for text in texts for name in _PART.findall(text)}


def test_a_part_stands_for_its_text_with_its_arguments() -> None:
    parts = {"NOW": Part(("at",), "coalesce({at}, now())"), "OLD": Part(("row", "at"), "{row}.at < {at} - 1")}

    text = _expanded("WHERE OLD(r, NOW($1)) AND ARRAY(SELECT f(1, 2)) AND NOW($2) > 0", parts)

    assert text == "WHERE r.at < coalesce($1, now()) - 1 AND ARRAY(SELECT f(1, 2)) AND coalesce($2, now()) > 0"


def test_a_part_with_too_few_arguments_is_rejected() -> None:
    with pytest.raises(ValueError, match="zip"):
        _expanded("NOW()", {"NOW": Part(("at",), "{at}")})


def test_a_shared_statement_is_spelled_as_its_dialect_writes_it() -> None:
    postgres = load(POSTGRES, "timetable_freeze", '"shop"')
    sqlite = load(SQLITE, "timetable_freeze", "shop")

    assert 'INSERT INTO "shop".freeze' in postgres
    assert "VALUES ($1, coalesce($4::timestamptz, statement_timestamp()), $2, $3)" in postgres
    assert "INSERT INTO shop_freeze" in sqlite
    assert "VALUES (?1, ?4, ?2, ?3)" in sqlite


@pytest.mark.parametrize("package", [POSTGRES, SQLITE])
def test_no_part_is_left_in_a_statement(package: str) -> None:
    named = re.compile(rf"\b(?:{'|'.join(_parts(package) | _parts(PACKAGE))})\(")

    assert [name for name, text in statements(package).items() if named.search(text)] == []


def test_every_part_is_used() -> None:
    for package in (PACKAGE, POSTGRES, SQLITE):
        texts = [
            each.read_text()
            for folder in {package, PACKAGE, POSTGRES, SQLITE}
            for each in (files(folder) / "sql").iterdir()
            if each.name.endswith(".sql")
        ]
        assert {
            name for name in _parts(package) if not any(re.search(rf"(?<!part: ){name}\(", text) for text in texts)
        } == set()


@pytest.mark.parametrize("package", [POSTGRES, SQLITE])
def test_a_dialect_spells_each_token_of_the_shared_statements(package: str) -> None:
    other = SQLITE if package == POSTGRES else POSTGRES
    shared = "\n".join(each.read_text() for each in (files(PACKAGE) / "sql").iterdir())

    assert {name for name in _parts(other) - _parts(package) if f"{name}(" in shared} == set()


def test_what_sqlite_runs_has_nothing_of_the_spelling_of_postgresql() -> None:
    bare = {name: re.sub(r"--.*|'[^']*'", "", text) for name, text in statements(SQLITE).items()}

    assert [name for name, text in bare.items() if re.search(r"\$\d|::|mainspring\.", text)] == []
