"""Every statement in a `.sql` file is run by someone."""

import ast
from pathlib import Path

from tests.house.tree import ROOT, SOURCE, files


def _written_names() -> set[str]:
    """Every string in the library's Python that could name a file."""
    return {
        node.value
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def _statements() -> list[Path]:
    """Migrations are not among them: they are found by their numbers."""
    return [path for path in files("src") if path.suffix == ".sql" and path.parent.name != "migrations"]


def test_every_statement_is_loaded_by_its_name() -> None:
    names = _written_names()

    assert [str(path) for path in _statements() if not {path.stem, path.name} & names] == []


def test_no_statement_is_empty() -> None:
    assert [str(path) for path in _statements() if not (ROOT / path).read_text().strip()] == []
