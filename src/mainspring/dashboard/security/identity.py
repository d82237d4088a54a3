"""The caller's identity and role, and how it is proven: by a token, a login cookie or the host application."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import hmac
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from starlette.requests import Request

from mainspring.model.errors import BadOption

Role = Literal["viewer", "operator"]
"""A viewer reads, an operator also acts."""

Way = Literal["anonymous", "cookie", "bearer", "hook"]
"""How the sender is authenticated: not at all, by a login cookie, by a token, or by the host application."""
ROLES: tuple[Role, ...] = ("operator", "viewer")
SHORTEST, FEWEST = 24, 8
"""The minimum characters of a token, and of different ones: attempts are not limited, so tokens must be strong."""
MAKING = "`python -c 'import secrets; print(secrets.token_urlsafe(24))'` generates one"
_VARIABLES: dict[Role, str] = {
    "operator": "MAINSPRING_DASHBOARD_OPERATOR_TOKEN",
    "viewer": "MAINSPRING_DASHBOARD_VIEWER_TOKEN",
}
HELD = 16
"""The maximum number of delayed responses at a time, for all senders."""
SECONDS = 1.0
"""The delay of each."""
LASTS = 12 * 60 * 60
"""Seconds until a login expires."""
_ROUNDS = 20_000
_REMEMBERED = 10_000
"""How many ended logins are remembered."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A person or program, by its name in the audit log, and its role."""

    name: str
    role: Role
    ambient: bool = True
    """Whether browsers send its credentials automatically, as with cookies: changes then also need a CSRF token."""


Authenticate: TypeAlias = Callable[[Request], Awaitable[Identity | None]]
"""A hook of the host application: return the identity of the sender, or None if unknown."""


@dataclass(frozen=True, slots=True)
class Access:
    """The access rights of one request."""

    identity: Identity | None
    way: Way
    csrf: str | None = None
    """The CSRF token that a change must send; None if no credentials are sent automatically."""
    session: str | None = None
    """The id of the login, if there is one."""

    @property
    def role(self) -> Role | None:
        """The role; None: none."""
        return None if self.identity is None else self.identity.role

    @property
    def by(self) -> str:
        """The name in the audit log."""
        assert self.identity is not None, "anonymous callers change nothing"
        return f"{self.identity.name} (dashboard)"

    def may(self, role: Role | None) -> bool:
        """Return whether the role is sufficient; None is for all callers."""
        return role is None or self.role in ("operator", role)


ANONYMOUS = Access(None, "anonymous")


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
        given = _digest(token)
        found: Role | None = None
        for role, digest in self._digests.items():  # all of them, for constant time
            if hmac.compare_digest(given, digest):
                found = role
        return found

    def secrets(self) -> Mapping[Role, str]:
        """Return the input of key derivation, by role."""
        return self._tokens


def environment_tokens(environment: Mapping[str, str] = os.environ) -> dict[Role, str]:
    """Return the tokens of the environment, each given directly or by the name of a file."""
    found: dict[Role, str] = {}
    for role, name in _VARIABLES.items():
        token, file = environment.get(name), environment.get(f"{name}_FILE")
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


class Attempts:
    """Delays the responses to wrong tokens, and never one to a right token.

    The strength of tokens (``Tokens``) prevents guessing, at any speed. So a right token needs no slot that unknown
    senders could exhaust, at its own address or elsewhere: it is checked first and admitted at once. Responses to wrong
    ones are delayed, and rejected with 429 if too many are delayed already.
    """

    def __init__(self, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        self._sleep = sleep
        self._held = 0

    async def hold(self) -> bool:
        """Wait before a token is rejected; return False at once if too many are waiting."""
        if self._held >= HELD:
            return False
        self._held += 1
        try:
            await self._sleep(SECONDS)
        finally:
            self._held -= 1
        return True


@dataclass(frozen=True, slots=True)
class Session:
    """One login."""

    id: str
    role: Role
    expires: int


class Sessions:
    """Signs logins and verifies them.

    Every role has its own key, derived from its token and the secret: processes with the same settings accept each
    other's logins, and changing a token ends the logins made with it.
    """

    def __init__(self, tokens: Tokens, secret: str | None = None, clock: Callable[[], float] = time.time) -> None:
        self._tokens = tokens
        self._secret = secret or ""
        self._clock = clock
        self._ended: dict[str, None] = {}

    def begin(self, role: Role) -> Session:
        """Create a login."""
        return Session(secrets.token_urlsafe(18), role, int(self._clock()) + LASTS)

    def signed(self, session: Session) -> str:
        """Return the value of its cookie."""
        signed = f"{session.role}.{session.id}.{session.expires}"
        return f"{signed}.{self._sign(session.role, signed)}"

    def read(self, cookie: str) -> Session | None:
        """Return the login of this cookie, or None if it is invalid, expired or was ended here."""
        signed, _, signature = cookie.rpartition(".")
        role, _, rest = signed.partition(".")
        known = next((each for each in self._tokens.secrets() if each == role), None)
        if known is None:
            return None
        if not hmac.compare_digest(self._sign(known, signed).encode(), signature.encode("utf-8", "replace")):
            return None
        id, _, expires = rest.partition(".")
        session = Session(id, known, int(expires))
        return None if session.expires <= self._clock() or id in self._ended else session

    def end(self, session_id: str) -> None:
        """Reject it from now on, in this process; the response deletes the browser's cookie."""
        self._ended[session_id] = None
        if len(self._ended) > _REMEMBERED:
            del self._ended[next(iter(self._ended))]

    def csrf(self, session: Session) -> str:
        """Return the CSRF token of this login."""
        return self._sign(session.role, f"csrf.{session.id}")

    def _sign(self, role: Role, signed: str) -> str:
        key = _key(role, self._tokens.secrets()[role], self._secret)
        return hmac.new(key, signed.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


@functools.lru_cache(maxsize=64)
def _key(role: Role, token: str, secret: str) -> bytes:
    # Slow on purpose: a stolen cookie must not allow brute-forcing the token.
    salt = f"mainspring dashboard session|{role}|{secret}".encode()
    return hashlib.pbkdf2_hmac("sha256", token.encode(), salt, _ROUNDS)
