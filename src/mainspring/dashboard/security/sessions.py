"""Logins: a signed cookie with a role and an expiry, and the CSRF token of changes."""

from __future__ import annotations

import functools
import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from mainspring.dashboard.security.identity import Role
from mainspring.dashboard.security.tokens import ROLES, Tokens

LASTS = 12 * 60 * 60
"""Seconds until a login expires."""
_ROUNDS = 20_000
_FORGOTTEN = 10_000


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
        self._ended: OrderedDict[str, int] = OrderedDict()

    def begin(self, role: Role) -> Session:
        """Create a login."""
        return Session(secrets.token_urlsafe(18), role, int(self._clock()) + LASTS)

    def signed(self, session: Session) -> str:
        """Return the value of its cookie."""
        said = f"{session.role}.{session.id}.{session.expires}"
        return f"{said}.{self._sign(session.role, said)}"

    def read(self, cookie: str) -> Session | None:
        """Return the login of this cookie, or None if it is invalid, expired or was ended here."""
        said, _, signature = cookie.rpartition(".")
        role, _, rest = said.partition(".")
        for known in ROLES:
            if role == known and known in self._tokens.secrets():
                break
        else:
            return None
        if not hmac.compare_digest(self._sign(known, said).encode(), signature.encode("utf-8", "replace")):
            return None
        id, _, expires = rest.partition(".")
        session = Session(id, known, int(expires))
        return None if session.expires <= self._clock() or id in self._ended else session

    def end(self, session_id: str, expires: int | None = None) -> None:
        """Reject it from now on, in this process; the browser is told to delete its cookie."""
        self._ended[session_id] = expires or 0
        while len(self._ended) > _FORGOTTEN:
            self._ended.popitem(last=False)

    def csrf(self, session: Session) -> str:
        """Return the CSRF token of this login."""
        return self._sign(session.role, f"csrf.{session.id}")

    def _sign(self, role: Role, said: str) -> str:
        key = _key(role, self._tokens.secrets()[role], self._secret)
        return hmac.new(key, said.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


@functools.lru_cache(maxsize=64)
def _key(role: Role, token: str, secret: str) -> bytes:
    # Slow on purpose: a stolen cookie must not allow brute-forcing the token.
    salt = f"mainspring dashboard session|{role}|{secret}".encode()
    return hashlib.pbkdf2_hmac("sha256", token.encode(), salt, _ROUNDS)
