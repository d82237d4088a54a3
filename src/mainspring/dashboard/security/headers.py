"""The headers of every response, and the origin of a request by its headers: this machine, this site, or another."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Message, Send

POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_ALWAYS = (
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("x-frame-options", "DENY"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
)
_ENCODED = tuple((name.encode(), value.encode()) for name, value in _ALWAYS)
_NO_STORE = (b"cache-control", b"no-store")
_PORTS = {"http": 80, "https": 443}
_WITH_PORT = re.compile(r"\[([^\]]+)\](?::\d+)?|([^:]+):\d+")


def guarded(send: Send) -> Send:
    """Wrap ``send`` to add these headers to every response; without its own caching header it is not cached."""

    async def guarding(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            names = {name.lower() for name, _ in headers}
            headers += [(name, value) for name, value in _ENCODED if name not in names]
            if b"cache-control" not in names:
                headers.append(_NO_STORE)
            message = {**message, "headers": headers}
        await send(message)

    return guarding


def is_loopback(address: str) -> bool:
    """Return whether this is an address or a name of this machine."""
    name = address.strip("[]").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        found = ipaddress.ip_address(name)
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        return found.ipv4_mapped.is_loopback
    return found.is_loopback


def host_of(headers: Headers, *, trust_proxy: bool) -> str:
    """Return the host, and its port if given, that the browser requested."""
    forwarded = headers.get("x-forwarded-host", "").split(",")[0].strip() if trust_proxy else ""
    return forwarded or headers.get("host", "")


def is_host_of(host: str, allowed: Collection[str]) -> bool:
    """Return whether a Host header names this machine or one of these hosts, on any port."""
    name = split_host(host)[0]
    return is_loopback(name) or name in {each.lower() for each in allowed}


def split_host(host: str) -> tuple[str, int | None]:
    """Return name and port; an invalid port makes the name empty, which matches nothing."""
    try:
        parts = urlsplit(f"//{host}")
        return (parts.hostname or "").lower(), parts.port
    except ValueError:
        return "", None


def is_same_origin(request: Request, *, trust_proxy: bool, needed: bool) -> bool:
    """Return whether the request comes from a page of the dashboard.

    Browsers report it by Sec-Fetch-Site and Origin, older ones by Referer. ``needed``: one of them must be present,
    because the credentials are sent automatically.
    """
    headers = request.headers
    site = headers.get("sec-fetch-site")
    if site is not None and site != "same-origin":
        return False
    origin = headers.get("origin") or headers.get("referer")
    if origin is None:
        return site is not None or not needed
    return _is_of(origin, host_of(headers, trust_proxy=trust_proxy))


def _is_of(origin: str, host: str) -> bool:
    try:
        parts = urlsplit(origin)
        name, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        return False
    usual = _PORTS.get(parts.scheme)
    host_name, host_port = split_host(host)
    # A proxy that terminates TLS forwards plain HTTP: the scheme, and so the default port, is the browser's.
    return usual is not None and name != "" and (name, port or usual) == (host_name, host_port or usual)


def client_of(request: Request, *, trust_proxy: bool) -> str:
    """Return the sender's address, for counting; the one reported by a proxy only if that is trusted.

    The last address is the proxy's own: the sender may have forged those before it, even in a separate header. The port
    is ignored, or every connection would be another sender; so is the second half of an IPv6 address, of which every
    sender has 2⁶⁴.
    """
    address = "" if request.client is None else request.client.host
    if trust_proxy and (forwarded := request.headers.getlist("x-forwarded-for")):
        address = forwarded[-1].rsplit(",", 1)[-1].strip()
    if (with_port := _WITH_PORT.fullmatch(address)) is not None:
        address = with_port[1] or with_port[2]
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return "".join(each for each in address if each.isascii() and each.isprintable())[:50] or "unknown"
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return f"{ipaddress.IPv6Address(int(found) >> 64 << 64)}/64"


def is_secure(request: Request, *, trust_proxy: bool) -> bool:
    """Return whether the browser uses TLS, to the server or to a proxy."""
    if request.url.scheme == "https":
        return True
    if trust_proxy and request.headers.get("x-forwarded-proto", "").split(",")[0].strip() == "https":
        return True
    # The page's own origin, if it is one of the dashboard's: a cookie may then be Secure.
    if (page := request.headers.get("origin") or request.headers.get("referer")) is not None:
        return page.startswith("https://")
    # Browsers send these over TLS and to their own machine; never over plain HTTP to another.
    name = split_host(host_of(request.headers, trust_proxy=trust_proxy))[0]
    return "sec-fetch-site" in request.headers and not is_loopback(name)
