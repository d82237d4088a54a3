"""What dead letters died of, told apart: errors that differ only in what they speak of have one fingerprint."""

from __future__ import annotations

import re
from hashlib import blake2s

_LONGEST = 2_000
_QUOTED = re.compile(r"""(?<!\w)(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`)(?!\w)""")
_ADDRESS = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w.-]+")
_QUERY = re.compile(r"(?<=[\w/])\?[\w%&=+.,;:/~-]+")
_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY.*", re.DOTALL)
_ASSIGNED = re.compile(
    r"""(?<![\w-])([\w-]++\\{0,4}["']?\s{0,3}=>?\s{0,3})
    (?:[bruf]{0,2}(?:'(?:[^'\\]|\\.)*+'?|"(?:[^"\\]|\\.)*+"?)|[\[({][^\])}]*+[\])}]?|[^\s,;&)}\]]+)""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_TOLD = re.compile(r"""(?<![\w-])([\w-]++)\\{0,4}["']?\s{0,3}:(?!:)""")
_HIDDEN = re.compile(
    r"pass|pwd|secret|token|auth|key$|credential|card|cookie|cvv|cvc|ssn|pin$|otp$|jwt|bearer|session|pan$",
    re.IGNORECASE,
)
_KINDS = ("Error", "Exception", "Warning")
_UUID = re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE)
_HEX = re.compile(r"\b[0-9a-f]{8,}\b", re.IGNORECASE)
_WORD = re.compile(r"\w+")
_DIGIT = re.compile(r"\d")
_SEVERAL = re.compile(r"#(?:[\s.,:;/+-]+#)+")
_SPACE = re.compile(r"\s+")


def generalised(error: str) -> str:
    """The error without what differs from one message to the next: ``#`` and ``?`` stand in for it."""
    text = _QUOTED.sub("?", error[:_LONGEST])
    text = _ADDRESS.sub("?", text)
    text = _QUERY.sub("?", text)
    # Values of fields are not to be found out by guessing them: a fingerprint is shown where they are masked.
    text = _untold(_ASSIGNED.sub(r"\1?", _KEY.sub("?", text)))
    text = _WORD.sub(_numbered, _HEX.sub("#", _UUID.sub("#", text)))
    return _SPACE.sub(" ", _SEVERAL.sub("#", text)).strip()


def _untold(text: str) -> str:
    """The text without the rest of each line on which a secret is told."""
    parts: list[str] = []
    done = 0
    for told in _TOLD.finditer(text):
        if told.start() >= done and _HIDDEN.search(told[1]) and not told[1].endswith(_KINDS):
            parts += (text[done : told.end()], "?")
            line = text.find("\n", told.end())
            done = len(text) if line < 0 else line
    return "".join((*parts, text[done:]))


def _numbered(word: re.Match[str]) -> str:
    return "#" if _DIGIT.search(word[0]) else word[0]


def fingerprint(kind: str, error: str) -> str:
    """A short name for the cause of a failure: the same in every process and every release that keeps these rules."""
    told = f"{kind}\n{generalised(error)}".encode("utf-8", "backslashreplace")
    return blake2s(told, digest_size=6).hexdigest()
