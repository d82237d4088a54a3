"""``mainspring dashboard``: the dashboard as a separate process."""

from __future__ import annotations

import asyncio
import secrets
import socket
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from mainspring.app.process.service import log_to_stderr, say
from mainspring.cli.errors import Refused
from mainspring.cli.target import UNNAMED, Spec, Target
from mainspring.model.errors import BadOption

if TYPE_CHECKING:
    from mainspring.app.fleet.fleet import Fleet
    from mainspring.app.mainspring import Mainspring
    from mainspring.dashboard.application import Application
    from mainspring.dashboard.options import DashboardOptions
    from mainspring.dashboard.security.identity import Role

PORT = 8321


def dashboard(
    app: Spec | None = None,
    /,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    read_only: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    allow_host: Annotated[tuple[str, ...], Parameter(metavar="NAME", negative="", show_default=False)] = (),
    root_path: Annotated[str | None, Parameter(metavar="PATH")] = None,
    trust_proxy: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    target: Target = UNNAMED,
) -> None:
    """Serve the dashboard, and print its address.

    Reads tokens from MAINSPRING_DASHBOARD_OPERATOR_TOKEN and MAINSPRING_DASHBOARD_VIEWER_TOKEN, or from files named by
    the same variables with _FILE. Without any, a token for this run is generated and printed with the address.

    Parameters
    ----------
    host
        The address to listen on; one that other machines can reach requires tokens.
    port
        The port [8321, or any free one if that is taken]; 0 takes any free one.
    read_only
        Allow no changes: only viewers can log in.
    allow_host
        A host name to accept, such as that of a proxy; repeatable.
    root_path
        The prefix that a proxy strips, such as /ops.
    trust_proxy
        Trust X-Forwarded-Host, -Proto, -For and -Prefix: only behind a proxy that sets them.
    """
    from mainspring.dashboard.security.headers import is_loopback
    from mainspring.dashboard.security.identity import MAKING, environment_tokens
    from mainspring.dashboard.server import Server, address_of, bound

    target = target.of(app)
    if port is not None and not 0 <= port <= 65535:  # noqa: PLR2004
        raise Refused(f"--port {port} must be between 0 and 65535")
    role: Role = "viewer" if read_only else "operator"
    tokens = {each: token for each, token in environment_tokens().items() if each == "viewer" or not read_only}
    fleet = target.fleet()
    if fleet is not None and target.database:
        raise Refused("the dashboard shows all databases of a fleet, or one: omit --database, or give one name")
    found = target.find() if fleet is None else fleet
    listening = usual_socket(host) if port is None else bound(host, port)
    # For a host name, only the socket knows the address.
    here = is_loopback(listening.getsockname()[0])
    address = f"http://{address_of(listening)}{(root_path or '').rstrip('/')}"
    text = f"mainspring dashboard: {address}/"
    if not tokens and here:
        tokens = {role: secrets.token_urlsafe(24)}
        text = f"mainspring dashboard, as {role}: {address}/login#token={tokens[role]}"
    if not tokens:
        listening.close()
        raise Refused(
            f"--host {host} is reachable from other machines, and there is no authentication: set "
            f"MAINSPRING_DASHBOARD_{role.upper()}_TOKEN "
            f"({MAKING})"
        )
    log_to_stderr("warning")
    options: DashboardOptions = {
        "tokens": tokens,
        "hosts": allow_host if here or allow_host else None,
        "root_path": root_path,
        "trust_proxy": trust_proxy,
    }
    served = dashboard_of(found, options, database_only=target.spec is None)
    server = Server(served, lifespan=True, closing=served.end_streams)
    server.started_up = lambda: say(text)
    asyncio.run(server.serve([listening]))


def dashboard_of(shown: Mainspring | Fleet, options: DashboardOptions, *, database_only: bool) -> Application:
    """Return the dashboard of an app or of a fleet."""
    from mainspring.app.fleet.fleet import Fleet
    from mainspring.dashboard import Dashboard, FleetDashboard

    if isinstance(shown, Fleet):
        return FleetDashboard(shown, **options)
    return Dashboard(shown, database_only=database_only, **options)


def usual_socket(host: str) -> socket.socket:
    """Bind the usual port, or any free one if another dashboard has it."""
    from mainspring.dashboard.server import bound

    try:
        return bound(host, PORT)
    except BadOption:
        return bound(host, 0)
