"""The tokens for logging in: parsed, and compared in constant time."""

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
"""The minimum characters of a token, and of different ones: attempts are not limited, so tokens must be strong."""
MAKING = "`python -c 'import secrets; print(secrets.token_urlsafe(24))'` generates one"
_VARIABLES: dict[Role, str] = {
    "operator": "MAINSPRING_DASHBOARD_OPERATOR_TOKEN",
    "viewer": "MAINSPRING_DASHBOARD_VIEWER_TOKEN",
}


class Tokens:
    """One token per role. A comparison takes the same time, right or wrong."""

    def __init__(self, tokens: Mapping[Role, str]) -> None:
        for role, token in tokens.items():
            _check(role, token)
        if len(set(tokens.values())) < len(tokens):
            raise BadOption("tokens= has the same token for both roles: give each its own token")
        self._tokens: dict[Role, str] = dict(tokens)
        self._digests = {role: _digest(token) for role, token in tokens.items()}

    def __bool__(self) -> bool:
        """Return whether there is any token."""
        return bool(self._tokens)

    def __repr__(self) -> str:
        """Omit the tokens."""
        return f"<Tokens for {', '.join(self._tokens) or 'no role'}>"

    def role(self, token: str) -> Role | None:
        """Return the role of this token."""
        asked = _digest(token)
        found: Role | None = None
        for role, digest in self._digests.items():  # all of them, for constant time
            if hmac.compare_digest(asked, digest):
                found = role
        return found

    def secrets(self) -> Mapping[Role, str]:
        """Return the input of key derivation, by role."""
        return self._tokens


def tokens_around(environment: Mapping[str, str] | None = None) -> dict[Role, str]:
    """Return the tokens of the environment, each given directly or by the name of a file."""
    around = os.environ if environment is None else environment
    found: dict[Role, str] = {}
    for role, name in _VARIABLES.items():
        token, file = around.get(name), around.get(f"{name}_FILE")
        if token and file:
            raise BadOption(f"{name} and {name}_FILE are both set: unset one")
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
        raise BadOption(f"tokens= has an unknown role {role!r}: use 'operator' and 'viewer'")
    called = name or f"the token of the role {role!r}"
    if not isinstance(token, str) or len(token) < SHORTEST or len(set(token)) < FEWEST:
        raise BadOption(
            f"{called} must be text of at least {SHORTEST} characters, {FEWEST} of them different: {MAKING}"
        )
    if not token.isascii() or not token.isprintable() or " " in token:
        raise BadOption(f"{called} must be printable ASCII without spaces, to fit into a header")


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
