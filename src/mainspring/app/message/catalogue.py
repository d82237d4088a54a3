"""The catalogue of message types: their topics, codecs, versions and upcasters."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin

from mainspring.app.names import check_topic, handler_name, is_reloaded
from mainspring.app.options import closest, whole
from mainspring.model.errors import (
    BadOption,
    BadPayload,
    BadSignature,
    Conflict,
    NewerVersion,
    Unencodable,
    Unreadable,
)
from mainspring.storage import codec
from mainspring.storage.codec import BYTES, JSON, Codec, Decode, Step, Versions
from mainspring.storage.patterns import is_wild

_MOST_VERSIONS = 10_000
_RAW = (bytes, bytearray, memoryview)
_ANYTHING = (Any, object, bytes, None)
_MAPPINGS = (dict, Mapping, MutableMapping)


class MessageType:
    """A type registered by ``@app.message``: its topic, codec and versions."""

    def __init__(self, kind: Any, topic: str, own: Codec | None, version: int) -> None:
        self.kind = kind
        self.topic = topic
        self.versions: Versions = Versions(codec.spelled(kind), JSON if own is None else own.content_type, version)
        self._own = own

    @property
    def name(self) -> str:
        """Qualified name."""
        return f"{getattr(self.kind, '__module__', '')}.{self.versions.name}"

    @property
    def plain(self) -> bool:
        """Whether it is read and written like an unregistered type."""
        return self.versions.content_type == JSON

    def encode(self, value: object) -> tuple[bytes, str]:
        """Return payload and content type. Raises Unencodable."""
        if self._own is None:
            payload, media = codec.encode(value)
            return payload, BYTES if media == BYTES else self.versions.content_type
        try:
            body: object = self._own.encode(value)
        except Exception as error:
            raise Unencodable(
                f"codec {self.versions.media!r} cannot encode {type(value).__qualname__} for topic {self.topic!r}: "
                f"{error if isinstance(error, Unencodable) else codec.located(error)}"
            ) from error
        if isinstance(body, _RAW):
            return bytes(body), self.versions.content_type
        raise Unencodable(
            f"codec {self.versions.media!r} encoded {type(value).__qualname__} for topic {self.topic!r} as "
            f"{type(body).__qualname__}: encode(…) must return bytes"
        )


@dataclass(frozen=True, slots=True)
class PayloadType:
    """The type that payloads of a topic, or of a consumer, are read as."""

    annotation: Any
    decode: Decode
    instances: frozenset[type]
    """Classes whose instances fit as they are."""
    floats: frozenset[type] = frozenset()
    """Classes whose instances fit as they are unless a NaN in them was written as null."""

    def trusts(self, kind: type, body: bytes) -> bool:
        """Return whether a payload that was made of an instance of this class is not read again."""
        return kind in self.instances or (kind in self.floats and b"null" not in body)

    def check(self, topic: str, body: bytes, content_type: str, *remedy: str) -> None:
        """Raise BadPayload unless this payload can be read so. One of a newer version is left to newer code."""
        try:
            self.decode(body, content_type)
        except NewerVersion:
            return
        except Unreadable as error:
            reason = "$: expected a value, got bytes" if content_type == BYTES else codec.misfits(error)
            raise BadPayload(topic, codec.spelled(self.annotation), reason or str(error), *remedy) from error
        except Exception as error:  # of a validator: pydantic passes on all but ValueError and AssertionError
            raise BadPayload(topic, codec.spelled(self.annotation), f"$: {codec.located(error)}", *remedy) from error


class Catalogue:
    """Message types by topic, with their codecs and decoders."""

    def __init__(self, codecs: Iterable[Codec] = ()) -> None:
        self._codecs: dict[str, Codec] = {each.content_type: each for each in codecs}
        self._types: dict[Any, MessageType] = {}
        self._topics: dict[str, MessageType] = {}
        self._read_as_plain: set[Any] = set()
        self.of_topic: dict[str, tuple[PayloadType, ...]] = {}
        """What payloads of a topic must be: its message type, or else what its consumers here take."""
        self.of_group: dict[str, tuple[PayloadType, ...]] = {}
        """What payloads for a consumer of this app must be; nothing where it takes anything."""
        self._heard: dict[str, dict[str, PayloadType]] = {}

    def register(self, kind: Any, topic: str, own: str | None = None, version: int = 1) -> None:
        """Register the type, its topic, codec and version. A repeat must not change them."""
        check_topic(topic)
        whole(version, "version", least=1, most=_MOST_VERSIONS)
        if version > 1 and _is_builtin(kind):
            raise BadOption(
                f"version={version} of {codec.spelled(kind)}: a payload of any topic may be one, so only a class of "
                "your own has versions"
            )
        fresh = MessageType(kind, topic, self._codec(own), version)
        try:
            codec.decoder(kind, self._codecs, fresh.versions)
        except BadSignature as error:
            # Decorators are applied from the bottom up: a class below @app.message and @dataclass is none yet.
            raise BadSignature(f"{error}; if it has @dataclass, put @app.message above that") from error
        before = self._types.get(kind, fresh)
        if before.topic != topic:
            raise Conflict(f"{fresh.versions.name} is already the message of topic {before.topic!r}: use another type")
        if before.versions.content_type != fresh.versions.content_type:
            raise Conflict(
                f"{fresh.versions.name} is already registered as {before.versions.content_type!r}, and now as "
                f"{fresh.versions.content_type!r}: keep one @app.message(…)"
            )
        other = self._topics.get(topic, fresh)
        if other.name != fresh.name:
            raise Conflict(f"topic {topic!r} already has a message type, {other.name}: give {fresh.name} another topic")
        if not fresh.plain and kind in self._read_as_plain:
            raise Conflict(
                f"a consumer of {fresh.versions.name} was registered before its @app.message(…, codec=…, version=…): "
                "put @app.message above the type, so that it comes first"
            )
        self._types[kind] = self._topics[topic] = before
        self.of_topic[topic] = self._checked(kind, codec.decoder(kind, self._codecs, before.versions))

    def add_upcaster(self, kind: Any, version: int, function: Any) -> None:
        """Register the upcaster from one version of a type to the next; raise if it is invalid."""
        known = self._of(kind)
        if known is None:
            raise BadOption(
                f"@app.upcaster({codec.spelled(kind)}, {version!r}): no such message type is registered; put "
                "@app.message(topic, version=…) above it"
            )
        whole(version, "version", least=1, most=_MOST_VERSIONS)
        _check_upcaster(function)
        name, versions = handler_name(function), known.versions
        if version >= versions.current:
            raise BadOption(
                f"upcaster {name} reads version {version} of {versions.name}, which is at version {versions.current}: "
                f"write @app.message(…, version={version + 1}) above the type, or name an older version here"
            )
        before = versions.step(version)
        if before is not None and before.function is not function and not is_reloaded(before.function, function):
            raise Conflict(
                f"version {version} of {versions.name} already has an upcaster, {before.name}: remove it, or let "
                f"{name} read another version"
            )
        try:
            codec.json_reader(kind)
        except BadSignature as error:
            raise BadSignature(f"upcaster {name} has no use: what it returns is read as JSON, and {error}") from error
        versions.add(Step(version, function, name))

    def check(self) -> None:
        """Raise BadOption if a chain of upcasters has a gap. Called when all are registered."""
        for each in self._topics.values():
            versions, missing = each.versions, each.versions.missing
            if missing is not None:
                raise BadOption(
                    f"{versions.name} has upcasters, but none from version {missing} to {missing + 1}, and it is at "
                    f"version {versions.current}: write @app.upcaster({versions.name}, {missing}), or remove the ones "
                    "from older versions"
                )

    def topic_of(self, kind: Any) -> str | None:
        """Return the topic of a type, or None."""
        known = self._of(kind)
        return None if known is None else known.topic

    @property
    def registered(self) -> Mapping[str, MessageType]:
        """The message types, by topic."""
        return self._topics

    def type_of(self, topic: str) -> Any:
        """Return the message type of a topic, or None."""
        known = self._topics.get(topic)
        return None if known is None else known.kind

    def encode(self, value: object, topic: str) -> tuple[bytes, str]:
        """Return payload and content type: as the topic's message type, or else as the value's own."""
        known = self._topics.get(topic)
        if known is None and (known := self._types.get(type(value))) is not None and _is_builtin(known.kind):
            known = None
        return codec.encode(value) if known is None else known.encode(value)

    def decoder(self, annotation: Any) -> Decode:
        """Return the decoder of this annotation. Raises BadSignature if there is none."""
        known = self._message_type(annotation)
        decode = codec.decoder(annotation, self._codecs, None if known is None else known.versions)
        if known is None:
            self._read_as_plain.update(filter(_is_hashable, _members(annotation)))
        return decode

    def consumed(self, group: str, topics: Iterable[str], annotation: Any, decode: Decode | None) -> None:
        """Note what a consumer of these topics takes; without a decoder it takes no payload."""
        if group in self.of_group:  # by a module that is loaded again
            for topic, heard in self._heard.items():
                if heard.pop(group, None) is not None and topic not in self._topics:
                    self.of_topic[topic] = _distinct(heard.values())
        self.of_group[group] = expected = () if decode is None else self._checked(annotation, decode)
        for topic in topics:
            if topic not in self._topics and not is_wild(topic):
                self._heard.setdefault(topic, {}).update((group, each) for each in expected)
                self.of_topic[topic] = _distinct(self._heard[topic].values())

    def _checked(self, annotation: Any, decode: Decode) -> tuple[PayloadType, ...]:
        """Return what payloads of this annotation must be; nothing if they may be anything."""
        if annotation in _ANYTHING:
            return ()
        if _takes_any_object(annotation):
            return (PayloadType(annotation, decode, frozenset((dict,))),)
        classes = frozenset(each for each in _members(annotation) if isinstance(each, type) and not _is_builtin(each))
        floats = frozenset(filter(codec.has_floats, classes))
        return (PayloadType(annotation, decode, classes - floats, floats),)

    def needed(self, annotation: Any) -> list[str]:
        """Describe what this annotation needs of the catalogue; nothing for plain JSON."""
        known = self._message_type(annotation)
        codecs = [f"the app's codec {', '.join(self._codecs)}"] if self._codecs else []
        return codecs if known is None or known.plain else [*codecs, f"the versions of {known.versions.name}"]

    def _codec(self, own: object) -> Codec | None:
        if own is None or own == JSON:
            return None
        if isinstance(own, str) and own in self._codecs:
            return self._codecs[own]
        known = [JSON, *self._codecs]
        hint = closest(own, known) if isinstance(own, str) else ""
        raise BadOption(
            f"codec={own!r} is not the content type of a codec of this app.{hint} There are {', '.join(known)}: give "
            "others to Mainspring(codecs=[…])"
        )

    def _of(self, kind: Any) -> MessageType | None:
        # An annotation that cannot be hashed was never registered.
        return self._types.get(kind) if _is_hashable(kind) else None

    def _message_type(self, annotation: Any) -> MessageType | None:
        """Return the only message type in an annotation."""
        found = [known for each in _members(annotation) if (known := self._of(each)) and not _is_builtin(each)]
        return found[0] if len(found) == 1 else None


def read_codecs(given: object) -> tuple[Codec, ...]:
    """Check and return an app's codecs; raise BadOption for others."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise BadOption(f"codecs={given!r} must be a list of codecs, as in codecs=[MsgpackCodec()]")
    codecs: dict[str, Codec] = {}
    for each in given:
        if isinstance(each, type):
            raise BadOption(f"codecs holds the class {each.__qualname__}: make one, {each.__qualname__}(…)")
        if not isinstance(each, Codec) or not callable(each.encode) or not callable(each.decoder):
            raise BadOption(f"codecs holds {each!r}: a codec has content_type, encode(value) and decoder(annotation)")
        own = codec.check_content_type(each.content_type, f"the content type of {type(each).__qualname__}")
        if own in codecs:
            raise BadOption(f"codecs holds two for content type {own!r}: keep one, since it is found by that")
        codecs[own] = each
    return tuple(codecs.values())


def _check_upcaster(function: Any) -> None:
    if not callable(function) or inspect.isclass(function):
        raise BadSignature(f"@app.upcaster(…) goes above a function, not {function!r}")
    name = handler_name(function)
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise BadSignature(f"upcaster {name} must be a plain function, `def`, that returns the next version")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # written in C: it has no signature
        return
    try:
        signature.bind({})
    except TypeError as error:
        raise BadSignature(
            f"upcaster {name} is called with the older payload alone, as in `def upgrade(old: dict) -> dict`: {error}"
        ) from error


def _members(annotation: Any) -> Iterator[Any]:
    """Yield the types that a payload may have: the one inside ``Annotated``, and each of a union."""
    if get_origin(annotation) is Annotated:
        yield from _members(get_args(annotation)[0])
    elif get_origin(annotation) in (Union, types.UnionType):
        for each in get_args(annotation):
            yield from _members(each)
    else:
        yield annotation


def _takes_any_object(annotation: Any) -> bool:
    """Return whether every dict fits: JSON has text for all keys."""
    if (get_origin(annotation) or annotation) not in _MAPPINGS:
        return False
    keys, values = get_args(annotation) or (Any, Any)
    return keys in (str, Any, object) and values in (Any, object)


def _distinct(found: Iterable[PayloadType]) -> tuple[PayloadType, ...]:
    kept: list[PayloadType] = []
    for each in found:
        if all(each.annotation != other.annotation for other in kept):
            kept.append(each)
    return tuple(kept)


def _is_builtin(kind: Any) -> bool:
    """Return whether a value of it need not be this message: a dict, a number, a list."""
    return getattr(kind, "__module__", "builtins") in ("builtins", "typing")


def _is_hashable(kind: Any) -> bool:
    try:
        hash(kind)
    except TypeError:
        return False
    return True
