"""Every statement in a `.sql` file is run by the library."""

import ast
import re

import pytest

from mainspring.storage import postgres, sqlite
from mainspring.storage.portable.statements import statements
from tests.house.tree import SOURCE


def _written_names() -> set[str]:
    """Every string in the library's Python that could name a file."""
    return {
        node.value
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


@pytest.mark.parametrize("package", [postgres.__name__, sqlite.__name__])
def test_every_statement_is_loaded_by_its_name(package: str) -> None:
    assert set(statements(package)) - _written_names() == set()


@pytest.mark.parametrize("package", [postgres.__name__, sqlite.__name__])
def test_no_statement_is_empty(package: str) -> None:
    bare = {name: re.sub(r"(?m)^--.*$", "", text).strip() for name, text in statements(package).items()}

    assert [name for name, text in bare.items() if not text] == []
