"""The client of NATS, with headers and subjects that are no text: one message never ends the reading of others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nats.aio.client import Client as PlainClient

UNREADABLE = "all headers"
"""The name for the bytes of all headers, where these cannot be read: the client skips names with a blank."""


class Client(PlainClient):
    """Reads every message, whatever its header and its subject hold.

    At a status or a subject that is no UTF-8 text the client's reader ends, while the connection stays open: such a
    message would come first on every connection. In a value the client replaces what is no UTF-8 text.
    """

    def __init__(self) -> None:
        super().__init__()
        self._listeners: dict[int, Callable[[Any], None]] = {}

    async def listen(self, subject: str, listener: Callable[[Any], None]) -> Any:
        """Subscribe; ``listener`` is called with each message when it is read, and must not raise.

        The client itself would put each into a queue, for a task, and drop those beyond a limit.
        """
        made = await self.subscribe(subject, pending_msgs_limit=0, pending_bytes_limit=0)
        self._listeners[made._id] = listener  # noqa: SLF001 - what _build_message gets
        return made

    async def _process_headers(self, headers: bytes | None) -> Any:
        if not headers:
            return None
        try:
            headers.decode()
            return await super()._process_headers(headers)
        except (ValueError, IndexError):
            return {UNREADABLE: headers}

    def _build_message(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: Any) -> Any:
        text = subject.decode(errors="backslashreplace")
        message = super()._build_message(sid, text.encode(), reply, data, headers)
        listener = self._listeners.get(sid)
        if listener is None:
            return message
        listener(message)
        return None  # and nothing is put into a queue

    async def _send_publish(
        self, subject: str, reply: str, payload: bytes, payload_size: int, headers: Mapping[str, str] | None
    ) -> None:
        if not headers:
            await super()._send_publish(subject, reply, payload, payload_size, None)
            return
        # The client would check and encode each name and value, which written_headers() has done.
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items() if name])
        written = f"NATS/1.0\r\n{lines}\r\n".encode()
        command = f"HPUB {subject} {reply} {len(written)} {len(written) + payload_size}\r\n"
        await self._send_command(b"".join((command.encode(), written, payload, b"\r\n")))
        if self._flush_queue is not None and self._flush_queue.empty():
            await self._flush_pending()
