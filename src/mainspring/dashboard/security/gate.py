"""The gate: who a request is from, and whether it may do what it asks for."""

from __future__ import annotations

import hashlib
import hmac
import math
import secrets
from collections.abc import Collection
from dataclasses import dataclass

from starlette.requests import Request

from mainspring.dashboard.answers import JSON, Problem
from mainspring.dashboard.security.attempts import Attempts
from mainspring.dashboard.security.identity import NOBODY, Access, Authenticate, Identity, Role
from mainspring.dashboard.security.origins import (
    client_of,
    host_of,
    is_from_here,
    is_host_of,
    is_same_origin,
    is_secure,
    split_host,
)
from mainspring.dashboard.security.sessions import LASTS, Session, Sessions
from mainspring.dashboard.security.tokens import Tokens

CSRF_HEADER = "x-mainspring-csrf"
_SECURE_NAME = "__Host-mainspring"
_PLAIN_NAME = "mainspring"


@dataclass(frozen=True, slots=True)
class Gate:
    """Decides about every request. Without tokens and without a hook it lets in who is on this machine, to look."""

    tokens: Tokens
    sessions: Sessions
    attempts: Attempts
    authenticate: Authenticate | None = None
    hosts: Collection[str] | None = None
    """The hosts that may be asked for, beside this machine; None: only checked where nobody logs in."""
    trust_proxy: bool = False

    @property
    def has_login(self) -> bool:
        """Whether there is a page to log in."""
        return bool(self.tokens) and self.authenticate is None

    @property
    def is_open(self) -> bool:
        """Whether nobody has to prove who they are."""
        return not self.tokens and self.authenticate is None

    # --- who it is -----------------------------------------------------------------------------------------

    def admit(self, request: Request) -> None:
        """Refuse whoever is not even to see the page: other machines where nobody logs in, and foreign hosts."""
        if self.is_open and not is_from_here(request):
            raise Problem(
                403,
                "no_authentication",
                "this dashboard has no authentication and answers only on its own machine: "
                "give Dashboard(tokens=…) or Dashboard(authenticate=…)",
            )
        checked = self.hosts is not None or self.is_open
        host = host_of(request.headers, trust_proxy=self.trust_proxy)
        if checked and not is_host_of(host, self.hosts or ()):
            raise Problem(
                421, "unknown_host", "this dashboard is not served under that host: name it by Dashboard(hosts=[…])"
            )

    async def access(self, request: Request) -> Access:
        """Who sends this. Raises Problem for a token that is wrong, or too many of them."""
        if self.authenticate is not None:
            return await self._by_hook(request, self.authenticate)
        if self.is_open:
            return Access(Identity("anonymous", "viewer"), "open")
        if (token := bearer(request)) is not None:
            # Programs that know their token are not kept out by what strangers try elsewhere.
            role = self.checked(request, token, alone=True)
            return Access(Identity(role, role), "bearer")
        for name in self._names(request):
            cookie = request.cookies.get(name)
            if cookie is not None and (session := self.sessions.read(cookie)) is not None:
                return self._of_session(session)
        return NOBODY

    def checked(self, request: Request, token: str, *, alone: bool = False) -> Role:
        """The role that a token gives. Raises Problem: wrong ones are counted.

        Whoever has a right one is not kept out by strangers of the same address, which behind a proxy is everybody's.
        """
        role = self.tokens.role(token)
        if role is not None:
            return role
        client = client_of(request, trust_proxy=self.trust_proxy)
        if wait := math.ceil(self.attempts.wait(client, alone=alone)):
            raise Problem(
                429,
                "too_many_attempts",
                f"there were too many wrong tokens: try again in {wait} s",
                {"Retry-After": str(wait)},
            )
        self.attempts.failed(client)
        raise Problem(401, "wrong_token", "that token is not known here: ask who runs this dashboard for one")

    async def _by_hook(self, request: Request, authenticate: Authenticate) -> Access:
        identity = await authenticate(request)
        if identity is None:
            return NOBODY
        if not isinstance(identity, Identity):
            raise TypeError(f"authenticate= returned {type(identity).__qualname__}: it must be an Identity, or None")
        secure, plain = self._names(request)
        cookie = request.cookies.get(secure) or request.cookies.get(plain)
        csrf = None if cookie is None else _csrf_of(cookie)
        return Access(identity, "bearer" if bearer(request) is not None else "hook", csrf)

    def _of_session(self, session: Session) -> Access:
        return Access(Identity(session.role, session.role), "cookie", self.sessions.csrf(session), session.id)

    # --- what it may do ------------------------------------------------------------------------------------

    def allow(self, access: Access, role: Role | None) -> None:
        """Raise Problem unless this much is allowed to who is known so."""
        if access.may(role):
            return
        if access.identity is None:
            how = "log in, or send a token as `Authorization: Bearer …`"
            if self.authenticate is not None:
                how = "log in to the application that serves this dashboard: it has no login of its own"
            challenge = {"WWW-Authenticate": "Bearer"} if self.tokens else {}
            raise Problem(401, "not_logged_in", f"this is only for who is known: {how}", challenge)
        raise Problem(403, "not_allowed", f"this needs the role {role!r}, and {access.identity.name} has not got it")

    def check_changing(self, request: Request, access: Access) -> None:
        """Raise Problem unless a request that changes something was meant by who sends it."""
        self.check_sender(request, ambient=access.way in ("cookie", "hook"))
        if access.way not in ("cookie", "hook"):
            return
        sent = request.headers.get(CSRF_HEADER, "")
        if access.csrf is None or not hmac.compare_digest(sent.encode(), access.csrf.encode()):
            raise Problem(
                403, "csrf", "the header X-Mainspring-Csrf is missing or old: send what GET /api/session says"
            )

    def check_sender(self, request: Request, *, ambient: bool) -> None:
        """Raise Problem unless it is JSON, from a page of ours or from no page at all."""
        if not is_same_origin(request, trust_proxy=self.trust_proxy, needed=ambient):
            raise Problem(403, "cross_origin", "this was sent by a page of another origin: only our own may do that")
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            raise Problem(415, "not_json", "send the body as JSON, with `Content-Type: application/json`")

    # --- cookies -------------------------------------------------------------------------------------------

    def login(self, request: Request, token: str) -> str:
        """The cookie of a new login. Raises Problem."""
        if self.authenticate is not None:
            raise Problem(404, "no_login", "the application that serves this dashboard says who you are: log in there")
        if not self.tokens:
            raise Problem(404, "no_login", "this dashboard has no login: it is read-only. Give Dashboard(tokens=…)")
        role = self.checked(request, token)
        return self._cookie(request, self.sessions.signed(self.sessions.begin(role)))

    def logout(self, request: Request, access: Access) -> list[str]:
        """The cookies that make the browser forget the login."""
        if access.session is not None:
            self.sessions.end(access.session)
        return [_written(name, "", secure=name == _SECURE_NAME, age=0) for name in self._names(request)]

    def csrf_cookie(self, request: Request, access: Access) -> tuple[str, str] | None:
        """Where the host application says who it is, the cookie that a token is bound to, and the token."""
        if access.way != "hook" or access.csrf is not None:
            return None
        fresh = secrets.token_urlsafe(24)
        return self._cookie(request, fresh), _csrf_of(fresh)

    def _cookie(self, request: Request, value: str) -> str:
        secure = is_secure(request, trust_proxy=self.trust_proxy)
        return _written(self._names(request)[0 if secure else 1], value, secure=secure, age=LASTS)

    def _names(self, request: Request) -> tuple[str, str]:
        # Browsers keep the cookies of all ports of a host together, and a developer may have several dashboards.
        port = split_host(request.headers.get("host", ""))[1]
        return _SECURE_NAME, f"{_PLAIN_NAME}-{port or 80}"


def bearer(request: Request) -> str | None:
    """The token that is sent along: browsers never do that by themselves."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def _written(name: str, value: str, *, secure: bool, age: int) -> str:
    end = "; Secure" if secure else ""
    return f"{name}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{end}"


def _csrf_of(cookie: str) -> str:
    return hashlib.sha256(f"mainspring csrf {cookie}".encode("utf-8", "replace")).hexdigest()
