"""Login, logout, and the current identity."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

from msgspec import Meta, Struct

from mainspring.dashboard.route import Call, Nothing, Params, Route
from mainspring.dashboard.security.identity import Role
from mainspring.dashboard.streams import wants_stream


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
    database_only: bool
    """Whether there is no application to create or freeze schedules for."""
    fleet: bool
    """Whether it is the dashboard of a fleet."""
    database: str | None
    """The database of the fleet whose screens these are."""
    missing: bool
    """Whether the fleet does not have it; false for an anonymous caller."""


class Login(Params, frozen=True):
    """A token of a role."""

    token: Annotated[str, Meta(min_length=1, max_length=500)]


async def session(call: Call, _params: Nothing) -> SessionView:
    """Return the caller's identity; behind a host application's authentication, also set the CSRF cookie."""
    access, services = call.access, call.services
    csrf = access.csrf
    # A stream cannot set cookies, and would return a new token at every poll.
    sets_cookie = access.role == "operator" and not wants_stream(call.request)
    if sets_cookie and (made := services.gate.csrf_cookie(call.request, access)) is not None:
        cookie, csrf = made
        call.cookies.append(cookie)
    return SessionView(
        None if access.identity is None else access.identity.name,
        access.role,
        csrf,
        services.app.options.name,
        "" if access.identity is None else installed_version(),
        services.gate.has_login,
        access.role is not None and call.may_search,
        datetime.now(UTC),
        services.database_only,
        services.fleet is not None or services.database is not None,
        services.database,
        access.identity is not None and not services.is_there(),
    )


async def login(call: Call, params: Login) -> None:
    """Log in: the cookie in the response is valid for twelve hours."""
    gate = call.services.gate
    role, cookie = await gate.login(call.request, params.token)
    await call.services.access_log.logged_in(role, gate.peer(call.request))
    call.cookies.append(cookie)


async def logout(call: Call, _params: Nothing) -> None:
    """Log out."""
    gate, access = call.services.gate, call.access
    call.cookies.extend(gate.logout(call.request, access))
    if access.session is not None and access.identity is not None:
        await call.services.access_log.logged_out(access.identity.name, gate.peer(call.request))


def installed_version() -> str:
    """Return the installed version."""
    try:
        return version("mainspring")
    except PackageNotFoundError:  # a checkout that is not installed
        return "unknown"


ROUTES = (
    Route("GET", "/api/session", session, "The caller's identity and role", role=None, personal=True),
    Route("POST", "/api/login", login, "Log in with a token", role=None, largest=4096),
    Route("POST", "/api/logout", logout, "Log out"),
)
