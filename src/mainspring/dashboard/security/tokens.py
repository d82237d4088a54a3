"""The tokens by which people and programs log in: read, and compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Mapping
from pathlib import Path

from mainspring.dashboard.security.identity import Role
from mainspring.model.errors import BadOption

ROLES: tuple[Role, ...] = ("operator", "viewer")
SHORTEST, FEWEST = 24, 8
"""Characters of a token, and different ones among them: guesses are not kept from being many, but from being right."""
MAKING = "`python -c 'import secrets; print(secrets.token_urlsafe(24))'` makes one"
_VARIABLES: dict[Role, str] = {
    "operator": "MAINSPRING_DASHBOARD_OPERATOR_TOKEN",
    "viewer": "MAINSPRING_DASHBOARD_VIEWER_TOKEN",
}


class Tokens:
    """One token per role. Whatever is compared with them takes the same time, right or wrong."""

    def __init__(self, tokens: Mapping[Role, str]) -> None:
        for role, token in tokens.items():
            _check(role, token)
        if len(set(tokens.values())) < len(tokens):
            raise BadOption("tokens= has the same token for both roles: give each a token of its own")
        self._tokens: dict[Role, str] = dict(tokens)
        self._digests = {role: _digest(token) for role, token in tokens.items()}

    def __bool__(self) -> bool:
        """Whether anybody can log in."""
        return bool(self._tokens)

    def __repr__(self) -> str:
        """For people: without the tokens."""
        return f"<Tokens for {', '.join(self._tokens) or 'nobody'}>"

    def role(self, token: str) -> Role | None:
        """The role that this token gives."""
        asked = _digest(token)
        found: Role | None = None
        for role, digest in self._digests.items():  # all of them, whichever matches
            if hmac.compare_digest(asked, digest):
                found = role
        return found

    def secrets(self) -> Mapping[Role, str]:
        """What keys are derived from, by role."""
        return self._tokens


def tokens_around(environment: Mapping[str, str] | None = None) -> dict[Role, str]:
    """The tokens that the environment sets, each itself or by the name of a file that holds it."""
    around = os.environ if environment is None else environment
    found: dict[Role, str] = {}
    for role, name in _VARIABLES.items():
        token, file = around.get(name), around.get(f"{name}_FILE")
        if token and file:
            raise BadOption(f"{name} and {name}_FILE are both set: leave one of them")
        if file:
            token = _read(file, f"{name}_FILE")
        if token:
            _check(role, token, name)
            found[role] = token
    return found


def _read(file: str, name: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadOption(f"{name}={file!r} cannot be read: {type(error).__name__}") from None


def _check(role: object, token: object, name: str | None = None) -> None:
    if role not in ROLES:
        raise BadOption(f"tokens= has the role {role!r}: there are 'operator' and 'viewer'")
    called = name or f"the token of the role {role!r}"
    if not isinstance(token, str) or len(token) < SHORTEST or len(set(token)) < FEWEST:
        raise BadOption(
            f"{called} must be text of at least {SHORTEST} characters, {FEWEST} of them different: {MAKING}"
        )
    if not token.isascii() or not token.isprintable() or " " in token:
        raise BadOption(f"{called} may hold only printable ASCII without spaces, so that it fits into a header")


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
