"""Logins: a signed cookie that says which role until when, and the token that changing requests send along."""

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
"""Seconds until a login is over."""
_ROUNDS = 20_000
_FORGOTTEN = 10_000


@dataclass(frozen=True, slots=True)
class Session:
    """One login."""

    id: str
    role: Role
    expires: int


class Sessions:
    """Signs logins and reads them again.

    Every role has a key of its own, derived from its token and the secret: processes with the same settings accept each
    other's logins, and whoever changes a token ends the logins made by it.
    """

    def __init__(self, tokens: Tokens, secret: str | None = None, clock: Callable[[], float] = time.time) -> None:
        self._tokens = tokens
        self._secret = secret or ""
        self._clock = clock
        self._ended: OrderedDict[str, int] = OrderedDict()

    def begin(self, role: Role) -> Session:
        """A new login."""
        return Session(secrets.token_urlsafe(18), role, int(self._clock()) + LASTS)

    def signed(self, session: Session) -> str:
        """The value of its cookie."""
        said = f"{session.role}.{session.id}.{session.expires}"
        return f"{said}.{self._sign(session.role, said)}"

    def read(self, cookie: str) -> Session | None:
        """The login that this cookie proves; None where it is none, is over, or was ended here."""
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
        """Accept it no more, in this process: the browser is told to forget its cookie."""
        self._ended[session_id] = expires or 0
        while len(self._ended) > _FORGOTTEN:
            self._ended.popitem(last=False)

    def csrf(self, session: Session) -> str:
        """What changing requests of this login send along."""
        return self._sign(session.role, f"csrf.{session.id}")

    def _sign(self, role: Role, said: str) -> str:
        key = _key(role, self._tokens.secrets()[role], self._secret)
        return hmac.new(key, said.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


@functools.lru_cache(maxsize=64)
def _key(role: Role, token: str, secret: str) -> bytes:
    # Slow on purpose: who has got hold of a cookie shall not find a token by trying.
    salt = f"mainspring dashboard session|{role}|{secret}".encode()
    return hashlib.pbkdf2_hmac("sha256", token.encode(), salt, _ROUNDS)
