"""The client of NATS, with headers and subjects that are no text: one message never ends the reading of others."""

from __future__ import annotations

from typing import Any

from nats.aio.client import Client as PlainClient

UNREADABLE = "all headers"
"""The name for the bytes of all headers, where these cannot be read: the client skips names with a blank."""


class Client(PlainClient):
    """Reads every message, whatever its header and its subject hold.

    At a status or a subject that is no UTF-8 text the client's reader ends, while the connection stays open: such a
    message would come first on every connection. In a value the client replaces what is no UTF-8 text.
    """

    async def _process_headers(self, headers: bytes | None) -> Any:
        try:
            (headers or b"").decode()
            return await super()._process_headers(headers)
        except (ValueError, IndexError):
            return {UNREADABLE: headers}

    def _build_message(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: Any) -> Any:
        text = subject.decode(errors="backslashreplace")
        return super()._build_message(sid, text.encode(), reply, data, headers)
