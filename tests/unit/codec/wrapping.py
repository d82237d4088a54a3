"""Codecs around another, as users write them: compression and signing."""

import hashlib
import hmac
import zlib
from collections.abc import Callable
from typing import Any

from mainspring import Codec
from mainspring.model.errors import Unreadable

LIMIT = 1_000


class Squeezed:
    """A codec around another: compression, with a bound on what comes out."""

    content_type = "application/json+zlib"

    def __init__(self, inner: Codec) -> None:
        self.inner = inner

    def encode(self, value: object) -> bytes:
        return zlib.compress(self.inner.encode(value))

    def decoder(self, annotation: Any) -> Callable[[bytes], Any]:
        read = self.inner.decoder(annotation)

        def decode(payload: bytes) -> Any:
            squeezed = zlib.decompressobj()
            plain = squeezed.decompress(payload, LIMIT)
            if squeezed.unconsumed_tail:
                raise ValueError(f"it is more than {LIMIT} bytes")
            return read(plain)

        return decode


class Signed:
    """A codec around another: the sender is known by a key."""

    content_type = "application/vnd.shop.signed+json"

    def __init__(self, inner: Codec, key: bytes) -> None:
        self.inner = inner
        self.key = key

    def encode(self, value: object) -> bytes:
        payload = self.inner.encode(value)
        return hmac.digest(self.key, payload, hashlib.sha256) + payload

    def decoder(self, annotation: Any) -> Callable[[bytes], Any]:
        read = self.inner.decoder(annotation)

        def decode(payload: bytes) -> Any:
            if not hmac.compare_digest(hmac.digest(self.key, payload[32:], hashlib.sha256), payload[:32]):
                raise Unreadable("the signature does not fit")
            return read(payload[32:])

        return decode
