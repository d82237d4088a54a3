"""The little of PostgreSQL's protocol that a proxy must read to know which answer to lose."""

import re
import struct

_SSL_REQUEST, _GSS_REQUEST, _CANCEL = 80877103, 80877104, 80877102


class Frames:
    """Cuts a stream into whole messages: (type, body)."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        self._rest += data
        whole: list[tuple[bytes, bytes]] = []
        while len(self._rest) >= 5:
            (length,) = struct.unpack_from("!I", self._rest, 1)
            if len(self._rest) < 1 + length:
                break
            whole.append((self._rest[:1], self._rest[5 : 1 + length]))
            self._rest = self._rest[1 + length :]
        return whole


class Requests:
    """What a client asks: it remembers prepared statements, so that an execution can be told by its text."""

    def __init__(self) -> None:
        self._started = False
        self._opening = b""
        self._frames = Frames()
        self._prepared: dict[bytes, str] = {}
        self.transaction: list[str] = []
        """What was asked since the last BEGIN, up to its COMMIT."""

    def feed(self, data: bytes) -> list[str]:
        """The texts of the statements that these bytes execute."""
        if not self._started:
            data = self._skip_opening(data)
        asked: list[str] = []
        for kind, body in self._frames.feed(data):
            if kind == b"Q":
                asked.append(body.rstrip(b"\0").decode(errors="replace"))
            elif kind == b"P":
                name, text = body.split(b"\0")[:2]
                self._prepared[name] = text.decode(errors="replace")
            elif kind == b"B":
                asked.append(self._prepared.get(body.split(b"\0")[1], ""))
        for statement in asked:
            was_last = self.transaction and self.transaction[-1].upper().startswith(("COMMIT", "ROLLBACK"))
            if was_last or statement.upper().startswith("BEGIN"):
                self.transaction.clear()
            self.transaction.append(statement)
        return asked

    def _skip_opening(self, data: bytes) -> bytes:
        self._opening += data
        while len(self._opening) >= 8:
            length, code = struct.unpack_from("!II", self._opening)
            if len(self._opening) < length:
                return b""
            self._opening = self._opening[length:]
            if code not in {_SSL_REQUEST, _GSS_REQUEST, _CANCEL}:
                self._started = True
                return self._opening
        return b""


def matches(pattern: str, statements: list[str]) -> bool:
    return any(re.search(pattern, statement, re.IGNORECASE) for statement in statements)
