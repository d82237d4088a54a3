"""Where a request comes from: this machine, this site, or elsewhere."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request

_PORTS = {"http": 80, "https": 443}
_WITH_PORT = re.compile(r"\[([^\]]+)\](?::\d+)?|([^:]+):\d+")


def is_loopback(address: str) -> bool:
    """Whether this is an address or a name of this very machine."""
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
    """The host, and port where it has one, that the browser asked for."""
    forwarded = headers.get("x-forwarded-host", "").split(",")[0].strip() if trust_proxy else ""
    return forwarded or headers.get("host", "")


def is_host_of(host: str, allowed: Collection[str]) -> bool:
    """Whether a Host header names this machine or one of these hosts, whatever its port."""
    name = split_host(host)[0]
    return is_loopback(name) or name in {each.lower() for each in allowed}


def split_host(host: str) -> tuple[str, int | None]:
    """Name and port; a port that is no number makes the name empty, which nothing equals."""
    try:
        parts = urlsplit(f"//{host}")
        return (parts.hostname or "").lower(), parts.port
    except ValueError:
        return "", None


def is_same_origin(request: Request, *, trust_proxy: bool, needed: bool) -> bool:
    """Whether the page that sent this is one of ours.

    Browsers say so by Sec-Fetch-Site and Origin, older ones by Referer. ``needed``: one of them must be there,
    since what proves who it is travels by itself.
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
    asked_name, asked_port = split_host(host)
    # A proxy that speaks TLS hands on plain HTTP: the scheme is the browser's, and with it the usual port.
    return usual is not None and name != "" and (name, port or usual) == (asked_name, asked_port or usual)


def client_of(request: Request, *, trust_proxy: bool) -> str:
    """The address of the sender, for counting; the proxy's word for it only where that is trusted.

    The last address is the proxy's own word: what stands before it, also in a header of its own, the sender may have
    written. A port does not count, or every connection would be another sender; nor does the second half of an
    address of IPv6, of which every sender has 2⁶⁴.
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
    """Whether the browser speaks TLS, to us or to a proxy."""
    if request.url.scheme == "https":
        return True
    if trust_proxy and request.headers.get("x-forwarded-proto", "").split(",")[0].strip() == "https":
        return True
    # Its own word, where it is a page of ours that says so: a cookie may then be Secure.
    if (page := request.headers.get("origin") or request.headers.get("referer")) is not None:
        return page.startswith("https://")
    # Browsers send these by TLS, and to their own machine; never by plain HTTP to another.
    name = split_host(host_of(request.headers, trust_proxy=trust_proxy))[0]
    return "sec-fetch-site" in request.headers and not is_loopback(name)
