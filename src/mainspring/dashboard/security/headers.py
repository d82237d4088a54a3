"""The headers of every response."""

from __future__ import annotations

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
