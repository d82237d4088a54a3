"""Reading for one consumer: by the content type that is stored, through upcasters where it is an older version.

What is stored says nothing about code: the type is the handler's own, the codecs and upcasters are the app's, and
nothing is imported, evaluated or unpickled (invariant 9).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from mainspring.model.errors import BadSignature, NewerVersion, Unencodable, Unreadable
from mainspring.storage.codec.contract import BYTES, JSON, Codec, Decode, Read, is_json, parted, stamped
from mainspring.storage.codec.formats import MALFORMED, encode_json, json_reader, misfit
from mainspring.storage.codec.types import located, spelled

Codecs = Mapping[str, Codec]
"""By their content types. JSON and bytes need none."""

_NO_CODECS: Codecs = {}
Upcaster = Callable[[Any], Any]
"""From the values of one version to those of the next."""


class Step(NamedTuple):
    """One upcaster, the version that it reads, and what people call it."""

    version: int
    function: Upcaster
    name: str


class Versions:
    """The current version of a type, and the chains of upcasters from older ones.

    A chain is put together when an upcaster registers, never when a message is delivered.
    """

    def __init__(self, name: str, media: str = JSON, current: int = 1) -> None:
        self.name: str = name
        self.media: str = media
        self.current: int = current
        self.content_type: str = stamped(media, current)
        self._steps: dict[int, Step] = {}
        self._chains: dict[int, tuple[Step, ...]] = {}

    def step(self, version: int) -> Step | None:
        """The upcaster from this version to the next one."""
        return self._steps.get(version)

    def add(self, step: Step) -> None:
        """Take an upcaster."""
        self._steps[step.version] = step
        self._chains = {version: self._chain(version) for version in self._steps}

    @property
    def missing(self) -> int | None:
        """The version at which the chain from the oldest upcaster breaks; None when it leads to the current one."""
        oldest = min(self._steps, default=self.current)
        return next((version for version in range(oldest, self.current) if version not in self._steps), None)

    def upcast(self, values: Any, version: int) -> Any:
        """Bring the values of an older version up to the current one. Raises Unreadable, naming the upcaster."""
        chain = self._chains.get(version)
        if not chain:
            raise Unreadable(
                f"version {version} of {self.name} is older than any upcaster, and {self.current} is current: write "
                f"@app.upcaster({self.name}, {version})"
            )
        for _, function, name in chain:
            try:
                values = function(values)
            except Exception as error:
                raise Unreadable(
                    f"upcaster {name} failed on a message of {self.name}, version {version}: {located(error)}"
                ) from error
            if values is None:
                raise Unreadable(
                    f"upcaster {name} returned None for a message of {self.name}, version {version}: it must return "
                    "the next version, also where it has only changed what it was given"
                )
        return values

    def newer(self, version: int) -> NewerVersion:
        """The complaint about a version that the code here does not know yet."""
        return NewerVersion(
            f"version {version} of {self.name} is newer than version {self.current}, the newest known here: a worker "
            "with newer code can read it"
        )

    def _chain(self, version: int) -> tuple[Step, ...]:
        steps = range(version, self.current)
        # With a hole in it, it leads nowhere; a worker that finds one missing does not start.
        return tuple(self._steps[each] for each in steps) if all(each in self._steps for each in steps) else ()


@dataclass(frozen=True, slots=True)
class Way:
    """How payloads of one content type become one type."""

    read: Read
    unfit: tuple[type[Exception], ...]
    complain: Callable[[Exception], Unreadable]

    def __call__(self, payload: bytes) -> Any:
        """Read it; raises Unreadable for what is unfit."""
        try:
            return self.read(payload)
        except self.unfit as error:
            raise self.complain(error) from error


def decoder(annotation: Any, codecs: Codecs = _NO_CODECS, versions: Versions | None = None) -> Decode:
    """Build, once, what reads payloads of this annotation, whichever content type they are stored as.

    Unknown fields are ignored, values are never coerced (a pydantic model decides for itself, and so does a codec of
    the user's own). With ``versions`` the annotation is a message type: older payloads go through its upcasters.
    Raises BadSignature when no payload could ever be read as this type.
    """
    if annotation is bytes:
        return _as_stored
    usual = JSON if versions is None else versions.content_type
    ways = _ways(annotation, codecs, None if versions is None else versions.media)
    elsewhere = _elsewhere(annotation, ways, codecs, versions)
    straight = ways.get(parted(usual)[0])
    if straight is None:
        return elsewhere
    read, unfit, complain = straight.read, straight.unfit, straight.complain

    def decode(payload: bytes, content_type: str) -> Any:
        # The one comparison nearly every message needs; everything else is looked at after it.
        if content_type != usual:
            return elsewhere(payload, content_type)
        try:
            return read(payload)
        except unfit as error:
            raise complain(error) from error

    return decode


def _elsewhere(annotation: Any, ways: Mapping[str, Way], codecs: Codecs, versions: Versions | None) -> Decode:
    """What reads everything but the usual content type."""
    older = None if versions is None or versions.current == 1 else _older(annotation, codecs, versions)

    def decode(payload: bytes, content_type: str) -> Any:
        media, version = parted(content_type)
        # A codec of the user's own comes first: its name may look like one of JSON's.
        media = media if media in ways or not is_json(media) else JSON
        if versions is not None and version != versions.current and media != BYTES:
            if version > versions.current or older is None:
                raise versions.newer(version)
            return older(payload, media, content_type, version)
        return _known(ways, media, content_type, annotation)(payload)

    return decode


def _older(annotation: Any, codecs: Codecs, versions: Versions) -> Callable[[bytes, str, str, int], Any]:
    """What reads older versions: as plain values, through the upcasters, then as JSON of the current one is read."""
    plain = _ways(Any, codecs)
    try:
        current = _json_way(annotation)
    except BadSignature as error:
        # Only a codec of the user's own can make one of these; @app.upcaster has refused to serve it.
        return _nothing_but(f"older versions of {versions.name} cannot be read: {error}")

    def decode(payload: bytes, media: str, content_type: str, version: int) -> Any:
        values = versions.upcast(_known(plain, media, content_type, annotation)(payload), version)
        try:
            return current(encode_json(values))
        except (Unencodable, Unreadable) as error:
            raise Unreadable(
                f"the upcasters of {versions.name} made no version {versions.current} out of version {version}: {error}"
            ) from error

    return decode


def _ways(annotation: Any, codecs: Codecs, own: str | None = None) -> dict[str, Way]:
    """A way for every content type; ``own`` must be able to read the type, or else at least one must."""
    ways: dict[str, Way] = {}
    refusals: dict[str, Exception] = {}
    try:
        ways[JSON] = _json_way(annotation)
    except BadSignature as error:
        refusals[JSON] = error
    for media, codec in codecs.items():
        try:
            ways[media] = _way(codec.decoder(annotation), media, annotation)
        except Exception as error:  # noqa: BLE001 - whatever it raises means no
            refusals[media] = error
    if own in refusals or not ways:
        refusal = refusals[own or JSON]
        if own is None or own == JSON:
            raise refusal
        raise BadSignature(f"codec {own!r} cannot read {spelled(annotation)}: {located(refusal)}") from refusal
    if annotation is Any or annotation is object:
        ways[BYTES] = Way(bytes, (), _unexpected)
    return ways | {media: _closed(media, annotation, error) for media, error in refusals.items()}


def _json_way(annotation: Any) -> Way:
    return Way(json_reader(annotation), MALFORMED, lambda error: misfit(error, annotation))


def _way(read: object, media: str, annotation: Any) -> Way:
    if not callable(read):
        raise TypeError(f"decoder({spelled(annotation)}) returned {read!r}, which cannot be called")

    def complain(error: Exception) -> Unreadable:
        # An error of Mainspring is a sentence already; in one of the codec the place is half of the message.
        if isinstance(error, Unreadable):
            return Unreadable(f"codec {media!r}: {error}")
        return Unreadable(f"codec {media!r} could not read it as {spelled(annotation)}: {located(error)}")

    return Way(read, (Exception,), complain)


def _closed(media: str, annotation: Any, reason: Exception) -> Way:
    def read(_payload: bytes) -> Any:
        raise Unreadable(f"content type {media!r} cannot be read as {spelled(annotation)}: {located(reason)}")

    return Way(read, (), _unexpected)


def _known(ways: Mapping[str, Way], media: str, content_type: str, annotation: Any) -> Way:
    way = ways.get(media)
    if way is not None:
        return way
    if media == BYTES:
        raise Unreadable(
            f"content type {content_type!r} is not decoded, and the handler asks for {spelled(annotation)}: annotate "
            "its payload with bytes, or publish something else"
        )
    known = ", ".join(sorted(ways))
    raise Unreadable(
        f"no codec for content type {content_type!r} here, only for {known}: give one to Mainspring(codecs=[…])"
    )


def _nothing_but(reason: str) -> Callable[[bytes, str, str, int], Any]:
    def decode(_payload: bytes, _media: str, _content_type: str, _version: int) -> Any:
        raise Unreadable(reason)

    return decode


def _unexpected(error: Exception) -> Unreadable:
    return Unreadable(str(error))


def _as_stored(payload: bytes, _content_type: str) -> bytes:
    return payload
