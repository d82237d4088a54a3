"""Authentication and authorisation of requests."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Collection
from dataclasses import dataclass

from starlette.requests import Request

from mainspring.dashboard.responses import JSON, Problem
from mainspring.dashboard.security.headers import client_of, host_of, is_host_of, is_same_origin, is_secure, split_host
from mainspring.dashboard.security.identity import (
    ANONYMOUS,
    LASTS,
    SECONDS,
    Access,
    Attempts,
    Authenticate,
    Identity,
    Role,
    Session,
    Sessions,
    Tokens,
)

CSRF_HEADER = "x-mainspring-csrf"
ROOT = "mainspring.root"
"""The key in a request's scope of the prefix of its pages as the browser sees it."""
HOME = "mainspring.home"
"""That of the whole dashboard, to which a login belongs: of a fleet, the pages of each database are below it."""
_SECURE = "__Host-"
_AMBIENT = ("cookie", "hook")
"""Credentials that browsers send automatically, whichever page makes the request."""
_FOREIGN = "cross-origin request: only the dashboard's own pages may send it"


@dataclass(frozen=True, slots=True)
class Gate:
    """Checks every request: by tokens, or by a hook of the host application."""

    tokens: Tokens
    sessions: Sessions
    attempts: Attempts
    authenticate: Authenticate | None = None
    hosts: Collection[str] | None = None
    """The hosts to accept, besides this machine; None: any."""
    trust_proxy: bool = False

    @property
    def has_login(self) -> bool:
        """Whether the dashboard has a login page."""
        return self.authenticate is None

    # --- authentication ------------------------------------------------------------------------------------

    def admit(self, request: Request) -> None:
        """Reject requests for an unknown host: protection against DNS rebinding."""
        host = host_of(request.headers, trust_proxy=self.trust_proxy)
        if self.hosts is not None and not is_host_of(host, self.hosts):
            raise Problem(421, "unknown_host", "unknown host: add it with Dashboard(hosts=[…])")

    async def access(self, request: Request, *, held: bool = True) -> Access:
        """Identify the sender. Raises Problem for a wrong token, without delay unless ``held``."""
        if self.authenticate is not None:
            return await self._by_hook(request, self.authenticate)
        if (token := bearer(request)) is not None:
            role = await self.checked(token, held=held)
            return Access(Identity(role, role), "bearer")
        for name in self._names(request):
            cookie = request.cookies.get(name)
            if cookie is not None and (session := self.sessions.read(cookie)) is not None:
                return self._of_session(session)
        return ANONYMOUS

    async def still(self, request: Request, access: Access) -> Access:
        """Identify the sender again: a login may have expired. A token stays valid while the process runs."""
        return access if access.way == "bearer" and self.authenticate is None else await self.access(request)

    async def checked(self, token: str, *, held: bool = True) -> Role:
        """Return the role of a token, at once. Raises Problem for a wrong one, after a delay if ``held``."""
        role = self.tokens.role(token)  # invariant 29: before anything that unknown senders could exhaust
        if role is not None:
            return role
        if held and not await self.attempts.hold():
            message = f"wrong token, and too many attempts: wait {SECONDS:.0f} s"
            raise Problem(429, "too_many_attempts", message, {"Retry-After": f"{SECONDS:.0f}"})
        raise Problem(401, "wrong_token", "wrong token: ask the operators of this dashboard for one")

    def peer(self, request: Request) -> str:
        """Return the sender's address, as far as it is known."""
        return client_of(request, trust_proxy=self.trust_proxy)

    async def _by_hook(self, request: Request, authenticate: Authenticate) -> Access:
        identity = await authenticate(request)
        if identity is None:
            return ANONYMOUS
        if not isinstance(identity, Identity):
            raise TypeError(f"authenticate= returned {type(identity).__qualname__}: it must be an Identity, or None")
        secure, plain = self._names(request)
        cookie = request.cookies.get(secure) or request.cookies.get(plain)
        csrf = None if cookie is None else _csrf_of(cookie)
        return Access(identity, "hook" if identity.ambient else "bearer", csrf)

    def _of_session(self, session: Session) -> Access:
        return Access(Identity(session.role, session.role), "cookie", self.sessions.csrf(session), session.id)

    # --- authorisation -------------------------------------------------------------------------------------

    def allow(self, access: Access, role: Role | None) -> None:
        """Raise Problem unless the caller has this role."""
        if access.may(role):
            return
        if access.identity is None:
            how = "log in, or send a token as `Authorization: Bearer …`"
            if self.authenticate is not None:
                how = "log in to the application that serves this dashboard"
            challenge = {"WWW-Authenticate": "Bearer"} if self.tokens else {}
            raise Problem(401, "not_logged_in", f"authentication required: {how}", challenge, quotes=False)
        known = access.identity
        raise Problem(403, "not_allowed", f"requires role {role!r}; {known.name} has role {known.role!r}")

    def check_reader(self, request: Request, access: Access) -> None:
        """Raise Problem for a page of another origin: it could not read the response, but measure its duration."""
        if access.way in _AMBIENT and request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            raise Problem(403, "cross_origin", _FOREIGN)

    def check_changing(self, request: Request, access: Access) -> None:
        """Raise Problem unless the sender intended the change (CSRF protection)."""
        self.check_sender(request, ambient=access.way in _AMBIENT)
        if access.way not in _AMBIENT:
            return
        sent = request.headers.get(CSRF_HEADER, "")
        if access.csrf is None or not hmac.compare_digest(sent.encode(), access.csrf.encode()):
            raise Problem(
                403, "csrf", "the header X-Mainspring-Csrf is missing or outdated: send the value from GET /api/session"
            )

    def check_sender(self, request: Request, *, ambient: bool) -> None:
        """Raise Problem unless it is JSON, from a page of the dashboard or from no page at all."""
        if not is_same_origin(request, trust_proxy=self.trust_proxy, needed=ambient):
            raise Problem(403, "cross_origin", _FOREIGN)
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            raise Problem(415, "not_json", "send the body as JSON, with `Content-Type: application/json`")

    # --- cookies -------------------------------------------------------------------------------------------

    async def login(self, request: Request, token: str) -> tuple[Role, str]:
        """Return the role and the cookie of a new login. Raises Problem."""
        if self.authenticate is not None:
            raise Problem(404, "no_login", "this dashboard has no login: log in to the application that serves it")
        role = await self.checked(token)
        return role, self._cookie(request, self.sessions.signed(self.sessions.begin(role)))

    def logout(self, request: Request, access: Access) -> list[str]:
        """Return the cookies that delete the login in the browser."""
        if access.session is not None:
            self.sessions.end(access.session)
        return [_written(name, "", secure=name.startswith(_SECURE), age=0) for name in self._names(request)]

    def csrf_cookie(self, request: Request, access: Access) -> tuple[str, str] | None:
        """Return the CSRF cookie and its token, if the host application authenticates."""
        if access.way != "hook" or access.csrf is not None:
            return None
        fresh = secrets.token_urlsafe(24)
        return self._cookie(request, fresh), _csrf_of(fresh)

    def _cookie(self, request: Request, value: str) -> str:
        secure = is_secure(request, trust_proxy=self.trust_proxy)
        return _written(self._names(request)[0 if secure else 1], value, secure=secure, age=LASTS)

    def _names(self, request: Request) -> tuple[str, str]:
        # Browsers share cookies between all ports of a host, and a developer may run several dashboards.
        port = split_host(request.headers.get("host", ""))[1]
        name = cookie_name(request.scope[HOME])
        return f"{_SECURE}{name}", f"{name}-{port or 80}"


def cookie_name(root: str) -> str:
    """Return the name of a login's cookie: one host may have several dashboards, each with its own prefix."""
    return f"mainspring-{hashlib.sha256(root.encode()).hexdigest()[:8]}" if root else "mainspring"


def bearer(request: Request) -> str | None:
    """Return the token in the header, which browsers never send automatically."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def _written(name: str, value: str, *, secure: bool, age: int) -> str:
    end = "; Secure" if secure else ""
    return f"{name}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{end}"


def _csrf_of(cookie: str) -> str:
    return hashlib.sha256(f"mainspring csrf {cookie}".encode("utf-8", "replace")).hexdigest()
