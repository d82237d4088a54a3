"""Masks the values of secret fields, in values that are read and in JSON whose end is missing."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from typing import Any

from mainspring.model.redaction import is_secret, redacted

DEEPEST = 200
LONGEST = 200
"""The maximum length of a name that is examined."""

_NAMING = ("name", "key", "header", "field")
"""Fields that name another field, whose value is beside them."""
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+(?P<end>"|\\?\Z)|[{}\[\]:,]|[^\s{}\[\]:,"]++', re.DOTALL)
_CLOSING = {"{": "}", "[": "]"}
_HALF_AN_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*+(?P<half>\\(?:u[0-9a-fA-F]{0,3})?)\Z")
# The `@` behind the password of a URL, and the digit that marks a token, may be in the missing part.
_HALF_A_SECRET = re.compile(r"(?:(?<=:)/{1,2}[^@]*|(?<=\bbearer)\s[^\s]*)\Z", re.IGNORECASE)
_MARK = "\x00unfinished"


class Unfinished(dict[str, Any]):
    """An object whose end is missing: a field that names its ``value`` may be there."""


class Masking(ABC):
    """Masks values by the names of their fields."""

    mask: str
    hides_anything: bool = True

    @abstractmethod
    def hides(self, name: str) -> bool:
        """Return whether a field of this name is masked."""

    @abstractmethod
    def text(self, text: str) -> str:
        """Mask the values of fields that text quotes."""

    def value(self, value: Any, depth: int = 0) -> Any:
        """Return the value with its secrets masked."""
        if depth > DEEPEST:
            return "…"
        match value:
            case dict():
                named = any(self._tells_of_hidden(value.get(each)) for each in _NAMING) or self._may_be_named(value)
                return {
                    key: self.mask
                    if self._names_hidden(key) or (named and key == "value")
                    else self.value(each, depth + 1)
                    for key, each in value.items()
                }
            case [first, _] if self._tells_of_hidden(first):
                return [first, self.mask]
            case list() | tuple():
                return [self.value(each, depth + 1) for each in value]
            case str():
                return self.quoted(value)
            case _:
                return value

    def quoted(self, text: str) -> str:
        """Mask what a text within a value quotes."""
        return self.text(text)

    def head(self, text: str) -> str:
        """Return the beginning of a payload without anything that is masked when all of it is read."""
        try:
            value, read, is_whole = _read(text)
        except RecursionError:
            return self.mask
        except ValueError:
            return self.text(text)
        masked = self.value(value)
        if masked == value:
            return text[:read]
        written = json.dumps(masked, ensure_ascii=False, separators=(",", ":")).encode(errors="replace").decode()
        return written if is_whole else written.rstrip('"]}')

    def _may_be_named(self, value: dict[Any, Any]) -> bool:
        return isinstance(value, Unfinished) and self.hides_anything

    def _tells_of_hidden(self, value: object) -> bool:
        """Return whether a value is the name of a masked field, and not a sentence that contains it."""
        return isinstance(value, str | bytes) and len(value[:LONGEST].split()) == 1 and self._names_hidden(value)

    def _names_hidden(self, value: object) -> bool:
        match value:
            case str():
                return self.hides(value)
            case bytes():
                return self.hides(value[:LONGEST].decode("utf-8", "replace"))
            case _:
                return False


class Secrets(Masking):
    """Masks fields with secret names, as errors and logs do."""

    mask: str = "…"

    def hides(self, name: str) -> bool:
        """Return whether a field of this name is secret."""
        return is_secret(name)

    def text(self, text: str) -> str:
        """Return the text without secrets."""
        return redacted(text)


def _read(text: str) -> tuple[Any, int, bool]:
    """Return the value of JSON whose end may be missing, how much of the text is in it, and whether that is all.

    An object that is not closed is Unfinished. Raises ValueError for text that is no JSON, even with an end.
    """
    closing: list[str] = []
    read, sign, end = 0, "", ""
    for token in _TOKEN.finditer(text):
        is_value = sign == ":" or "}" not in closing[-1:]
        match token[0]:
            case "{" | "[":
                closing.append(_CLOSING[token[0]])
                read = token.end()
            case "}" | "]":
                if not closing or closing.pop() != token[0]:
                    raise ValueError(token[0])
                read = token.end()
            case ",":
                read = token.start()
            case _ if is_value and token["end"] == '"':
                read = token.end()
            case _ if is_value and token["end"] is not None:
                read, end = _certain(token[0], token.start()), '"'
            case _:
                pass
        sign = token[0] if token[0] in "{}[]:," else ""
    if not closing and not end:
        return json.loads(text, strict=False), len(text), True
    for each in reversed(closing):
        comma = "" if not end and text[:read].rstrip().endswith("{") else ","
        end += f"{comma}{json.dumps(_MARK)}:0}}" if each == "}" else "]"
    return json.loads(text[:read] + end, strict=False, object_pairs_hook=_marked), read, False


def _certain(string: str, start: int) -> int:
    """Return the end of what is certain of a string whose end is missing."""
    half = _HALF_AN_ESCAPE.search(string)
    string = string if half is None else string[: half.start("half")]
    unsure = _HALF_A_SECRET.search(string)
    return start + (len(string) if unsure is None else unsure.start())


def _marked(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return Unfinished(found) if found.pop(_MARK, None) is not None else found
