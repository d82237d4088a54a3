"""Rights for the roles of a test, by what ``mainspring grants`` prints."""

import io
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

import psycopg

from mainspring.cli.commands import run
from mainspring.model.roles import Role


def printed(*arguments: str) -> str:
    """What the command prints."""
    with redirect_stdout(io.StringIO()) as out:
        assert run(["grants", *arguments]) == 0
    return out.getvalue()


def execute(url: str, statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as client:
        client.execute(statements.encode())


def grant(url: str, schema: str, role: Role, to: str) -> None:
    """Run what the command prints, as it is, in one go."""
    execute(url, printed("--role", role, to, "--schema", schema))


@contextmanager
def login(url: str, name: str) -> Iterator[str]:
    """Make a role that may log in, and nothing else; give its URL, and drop it afterwards."""
    execute(url, f'CREATE ROLE "{name}" LOGIN')
    try:
        yield url.replace("postgres@", f"{name}@")
    finally:
        execute(url, f'REASSIGN OWNED BY "{name}" TO postgres; DROP OWNED BY "{name}"; DROP ROLE "{name}"')
