"""Login, logout, and the current identity."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

from msgspec import Meta, Struct

from mainspring.dashboard.live import wants_stream
from mainspring.dashboard.route import Nothing, Route, Visit
from mainspring.dashboard.security.identity import Role


class SessionView(Struct, frozen=True):
    """The identity and role of the caller, and the app."""

    user: str | None
    role: Role | None
    csrf: str | None
    """To be sent as X-Mainspring-Csrf with every change."""
    app: str
    version: str
    """Empty for an anonymous caller."""
    login: bool
    """Whether the dashboard has a login page."""
    search: bool
    """Whether payloads and errors may be searched: if anything is masked, only operators may."""
    now: datetime


class Login(Struct, frozen=True, forbid_unknown_fields=True):
    """A token of a role."""

    token: Annotated[str, Meta(min_length=1, max_length=500)]


async def session(visit: Visit, _asked: Nothing) -> SessionView:
    """Return the caller's identity; behind a host application's authentication, also set the CSRF cookie."""
    access, house = visit.access, visit.house
    csrf = access.csrf
    # A stream cannot set cookies, and would return a new token at every poll.
    asked_once = access.role == "operator" and not wants_stream(visit.request)
    if asked_once and (made := house.gate.csrf_cookie(visit.request, access)) is not None:
        cookie, csrf = made
        visit.cookies.append(cookie)
    return SessionView(
        None if access.identity is None else access.identity.name,
        access.role,
        csrf,
        house.app.options.name,
        "" if access.identity is None else installed_version(),
        house.gate.has_login,
        access.role is not None and visit.may_search,
        datetime.now(UTC),
    )


async def login(visit: Visit, asked: Login) -> None:
    """Log in: the cookie in the response is valid for twelve hours."""
    gate = visit.house.gate
    role, cookie = await gate.login(visit.request, asked.token)
    await visit.house.access_log.logged_in(role, gate.peer(visit.request))
    visit.cookies.append(cookie)


async def logout(visit: Visit, _asked: Nothing) -> None:
    """Log out."""
    gate, access = visit.house.gate, visit.access
    visit.cookies.extend(gate.logout(visit.request, access))
    if access.session is not None and access.identity is not None:
        await visit.house.access_log.logged_out(access.identity.name, gate.peer(visit.request))


def installed_version() -> str:
    """Return the installed version."""
    try:
        return version("mainspring")
    except PackageNotFoundError:  # a checkout that is not installed
        return "unknown"


ROUTES = (
    Route("GET", "/api/session", session, "The caller's identity and role", SessionView, role=None, personal=True),
    Route("POST", "/api/login", login, "Log in with a token", None, Login, None, 204, largest=4096),
    Route("POST", "/api/logout", logout, "Log out", None, Nothing, "viewer", 204),
)
