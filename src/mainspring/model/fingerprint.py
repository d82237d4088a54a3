"""Fingerprints of errors: errors that differ only in values of one message share one.

Names of the program or the database, as keys, columns or statuses, distinguish causes and are kept. Values of one
message are blanked. Only the beginning of an error is read, so none is too long.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import blake2s
from http import HTTPStatus

_LONGEST = 2_000
_DEEPEST = 2
"""How deep quoted errors within errors are read."""
_ROUNDS = 4
"""How deep nested brackets are blanked."""

_QUOTED = re.compile(r"""(?<![\w\\])(?:'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|`[^`]*+`)(?!\w)""")
_WORDLIKE = re.compile(r"[A-Za-z_$][\w.$-]{0,62}")
_TYPELIKE = re.compile(r"[\w.$\[\]|… -]{1,80}")
_STATUS = re.compile(r"[1-5]\d\d [A-Z][A-Za-z' -]{1,40}")
_NAMED = re.compile(
    r"""(?: \b(?: attribute | (?:module|field|column)\ named | module | (?:NameError:|import)\ name | keyword | variable
            | column | constraint | relation | table | index | schema | database | role | sequence | function
            | extension | trigger | type | enum | class | method | property | parameter | field | option | setting
            | header | for\ key | instances\ of | missing\ key | arguments?:? )
      | \(not | type\(s\)\ for\ [^\s:]{1,3}: ) \s $""",
    re.VERBOSE,
)
_NAMING = re.compile(r" (?:object|codec|instance|has no attribute|is not defined|is a required property)\b")
_TYPED = re.compile(r"\b(?:[Ee]xpected|got|at|field) $")
_KEYED = re.compile(r"\bKeyError(?:: |\()$")
_CODED = re.compile(r"""["'](?:(?:\w{1,20}_)?code|type)["'] ?: ?$|["']loc["']: [\[(]$""")
_CODELIKE = re.compile(r"[A-Za-z]{3,}(?:[_.-][A-Za-z]+)*")
_JOINED = re.compile(r"(?:, | and |, and | or | from )$")
_QUOTING = re.compile(r"(?:(?:Error|Exception)\(|^[\w.]{1,80}: \(\d{4}, )$")
_REFUSED = re.compile(r"[\w.]*(?:ValidationError|Invalid): [\[{]")
_DIGITS = re.compile(r"\d{4,}|(?<=\[)\d+(?=\])")

_PHRASES = "|".join(sorted({re.escape(each.phrase) for each in HTTPStatus}))
_CODE = re.compile(
    rf"""(?<![\w-]) (?:
        (?i: HTTP (?:/\d(?:\.\d)?)? (?:\ error|\ status)? (?:\ code)? | (?:http[_ ])? status (?:[_ ]? code)?
           | response\ code | exit\ (?:code|status) | (?:by\ )? signal )
            (?:\ (?:is|was|of))? \s? [:=]? \s? (?:-?\d{{1,3}}) (?![\w.])
      | [1-5]\d\d (?= \ (?:Client|Server)\ Error\b | ,\ message= | \ (?:{_PHRASES})\b )
      | (?i: (?:err|win)(?:no|error) ) [\s=:]{{1,2}} -?\d{{1,5}} \b
      | (?i: sqlstate ) \W{{0,3}} [0-9A-Z]{{5}} \b
      | ORA-\d{{5}} \b
      | \w{{0,40}} (?i: http|status|response|api) \w{{0,40}} (?:Error|Exception) (?::\ |\() [1-5]\d\d \b
      | (?:status|code) \s? = \s? StatusCode\.[A-Z_]{{2,40}}
      | (?<=Error\() [1-5]\d\d (?=,)
      | (?<=[\[(]) type=[a-z_.]{{1,40}} (?=[,\])])
      | (?<=error\ occurred\ \() \d{{3}} (?=\))
      | (?<=Error:\ \() \d{{4}} (?=,)
    )""",
    re.VERBOSE,
)

_DAY, _MONTH = (
    "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6}",
    "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}",
)
_BEFORE_QUOTES = (
    # Added by PostgreSQL, SQLAlchemy and pydantic: rows and values, which may contain any quotes.
    (re.compile(r"(?<=Failing row contains )\(.*"), "?"),
    (re.compile(r"(?<=\bKey )(\([^()\n]{1,200}\))=\(.*\)"), r"\1=?"),
    (re.compile(r"\n\s*LINE \d+: .*(?:\n\s*\^)?"), ""),
    (re.compile(r"\[parameters: .*"), "[parameters: ?]"),
    (re.compile(r"\binput_value=.*?, input_type=\w+", re.DOTALL), "?"),
    (re.compile(r"<([\w.]{1,80}): [^<>\n]*>"), r"<\1: ?>"),
    (re.compile(r"(?<![\w\\])[bB](?=['\"])"), ""),
    (re.compile(r"“[^”\n]*”|\u2018[^\u2019\n]*\u2019|«[^»\n]*»"), "?"),
)
_AFTER_QUOTES = (
    (re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w.-]+"), "?"),
    (re.compile(r"(?<=[\w/])\?[\w%&=+.,;:/~-]+"), ""),
    (re.compile(r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY.*", re.DOTALL), "?"),
    (re.compile(r"(?<!\w)((?:/var)?/tmp|/var/folders)/[^\s'\",;:)\]]+"), r"\1/?"),
)
_ASSIGNED = re.compile(
    r"""(?<![\w-])([\w-]++\\{0,4}["']?\s{0,3}=>?\s{0,3})
    (?:[bruf]{0,2}(?:'(?:[^'\\]|\\.)*+'?|"(?:[^"\\]|\\.)*+"?)|[\[({][^\])}]*+[\])}]?|[^\s,;&)}\]]+)""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_FIELD = re.compile(r"""(?<![\w-])([\w-]++)\\{0,4}["']?\s{0,3}:(?!:)""")
_ASSIGNS = re.compile(r"\s{0,3}[:=]")
_HIDDEN = re.compile(
    r"pass|pwd|secret|token|auth|key$|credential|card|cookie|cvv|cvc|ssn|pin$|otp$|jwt|bearer|session|pan$",
    re.IGNORECASE,
)
_KINDS = ("Error", "Exception", "Warning")
_TERM = re.compile(
    r"utf(?:8|16|32)|latin1|u?int(?:8|16|32|64)|float(?:32|64)|s3|ec2|http2|ipv[46]|sha(?:1|256|512)|md5|base64|x509"
    r"|oauth2|k8s|mp[34]",
    re.IGNORECASE,
)
"""Words with a digit that are the same in every message."""

_NUMBERS = (
    (re.compile(r"((?:(?<![A-Za-z])id|(?<=[a-z])Id|ID)s?: ?)[^\s,;)\]}]+"), r"\1#"),
    (re.compile(r"\beyJ[\w.-]+"), "#"),
    (re.compile(rf"\b(?:{_DAY},? )?(?:\d{{1,2}}[ -]{_MONTH}|{_MONTH} {{1,2}}\d{{1,2}}\b)(?=[ ,-])"), "#"),
    (re.compile(r"\b[a-z]{2,8}_(?=\w*[a-z])(?=\w*[A-Z])\w{8,}\b"), "#"),
    (re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE), "#"),
    (re.compile(r"(?<![\w:.])(?=[0-9a-f:]*::|(?:[0-9a-f]{1,4}:){5})[0-9a-f:]{3,45}(?![\w:])", re.IGNORECASE), "#"),
    (re.compile(r"\b[0-9a-f]{8,}\b", re.IGNORECASE), "#"),
)
_TOKEN = re.compile(r"(?<![\w-])[\w-]{16,}(?![\w-])")
_WORD = re.compile(r"\w+")
_DIGIT, _LOWER, _UPPER = re.compile(r"\d"), re.compile("[a-z]"), re.compile("[A-Z]")
_SIGN = re.compile(r"(?<![\w#?)])[+-]#")
_CONSTANT = re.compile(r"(?<=[?#][:,] )(?:None|True|False|null|true|false)\b")
_SEVERAL = re.compile(r"[?#](?:[\s.,:;/+-]+[?#])+")
_BRACKETS = re.compile(r"\[\s?[?#]?\s?\]|\{\s?[?#]?\s?\}|\(\s?[?#],?\s?\)")
_SPACE = re.compile(r"\s+")
_MARKS = re.compile("[\ue000-\uf8ff]")
"""Private-use characters, placeholders for kept parts: none of them is part of a word."""


def fingerprint(kind: str, error: str) -> str:
    """Return a short name for the cause of a failure: the same in every process and release with these rules."""
    return _fingerprint(kind, error[:_LONGEST])


@lru_cache(maxsize=128)  # failures often repeat
def _fingerprint(kind: str, error: str) -> str:
    text = f"{kind}\n{generalised(error)}".encode("utf-8", "backslashreplace")
    return blake2s(text, digest_size=6).hexdigest()


def generalised(error: str) -> str:
    """Return the error without what differs between messages: ``#`` and ``?`` replace it."""
    text, kept = _MARKS.sub("?", error[:_LONGEST]), _Kept()
    for pattern, instead in _BEFORE_QUOTES:
        text = pattern.sub(instead, text)
    text = _CODE.sub(kept.match, _unquoted(text, kept))
    for pattern, instead in _AFTER_QUOTES:
        text = pattern.sub(instead, text)
    # Values of fields must not be guessable from a fingerprint, which is shown where they are masked.
    text = _without_secrets(_ASSIGNED.sub(r"\1?", text))
    for pattern, instead in _NUMBERS:
        text = pattern.sub(instead, text)
    text = _SIGN.sub("#", _WORD.sub(_numbered, _TOKEN.sub(_random, text)))
    for _ in range(_ROUNDS):
        text, count = _BRACKETS.subn("?", _SEVERAL.sub(_merged, _CONSTANT.sub("?", text)))
        if not count:
            break
    return kept.back(_SPACE.sub(" ", _SEVERAL.sub(_merged, text)).strip())


class _Kept:
    """Parts that distinguish causes, each replaced by a placeholder until all else is blanked."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def put(self, text: str) -> str:
        self._texts.append(text)
        return chr(0xE000 + len(self._texts) - 1)

    def match(self, found: re.Match[str]) -> str:
        return self.put(found[0])

    def back(self, text: str) -> str:
        return _MARKS.sub(lambda mark: self._texts[ord(mark[0]) - 0xE000], text)


def _unquoted(text: str, kept: _Kept, depth: int = 0) -> str:
    """Return the text without quoted parts, except names."""
    refused = depth == 0 and _REFUSED.match(text) is not None
    parts: list[str] = []
    done, names = 0, False
    for found in _QUOTED.finditer(text):
        before, quoted = text[max(done, found.start() - 40) : found.start()], found[0][1:-1]
        names = _is_name(quoted, before, text, found, after_name=names) or (
            refused and text.startswith(":", found.end()) and _WORDLIKE.fullmatch(quoted) is not None
        )
        parts.append(text[done : found.start()])
        done = found.end()
        if _HIDDEN.search(quoted) and _WORDLIKE.fullmatch(quoted) and _ASSIGNS.match(text, done):
            parts.append(quoted)  # its value is left out below
        elif names:
            parts.append(kept.put(_DIGITS.sub("#", quoted)))
            names = _HIDDEN.search(quoted) is None  # the text after it may be its value
        elif _KEYED.search(before) and _WORDLIKE.fullmatch(quoted):
            parts.append(found[0])
        elif depth < _DEEPEST and (refused or _QUOTING.search(text, max(found.start() - 90, 0), found.start())):
            parts.append(_unquoted(quoted, kept, depth + 1))
        else:
            parts.append("?")
    return "".join((*parts, text[done:]))


def _is_name(quoted: str, before: str, text: str, found: re.Match[str], *, after_name: bool) -> bool:
    if _STATUS.fullmatch(quoted):
        return True
    if found[0][0] == "`" and _TYPELIKE.fullmatch(quoted) and _TYPED.search(before):
        return True
    if _WORDLIKE.fullmatch(quoted) is None:
        return False
    if _NAMED.search(before) or _NAMING.match(text, found.end()):
        return True
    if _CODELIKE.fullmatch(quoted) and _CODED.search(text, max(found.start() - 40, 0), found.start()):
        return True
    return after_name and _JOINED.fullmatch(before) is not None and _ASSIGNS.match(text, found.end()) is None


def _without_secrets(text: str) -> str:
    """Return the text without the rest of each line that contains a secret."""
    parts: list[str] = []
    done = 0
    for field in _FIELD.finditer(text):
        if field.start() >= done and _HIDDEN.search(field[1]) and not field[1].endswith(_KINDS):
            parts += (text[done : field.end()], "?")
            line = text.find("\n", field.end())
            done = len(text) if line < 0 else line
    return "".join((*parts, text[done:]))


def _random(token: re.Match[str]) -> str:
    text = token[0]
    is_random = _DIGIT.search(text) and _LOWER.search(text) and _UPPER.search(text) and not text.endswith(_KINDS)
    return "#" if is_random else text


def _numbered(word: re.Match[str]) -> str:
    text = word[0]
    if _DIGIT.search(text) is None or _TERM.fullmatch(text) or text.endswith(_KINDS):
        return text
    return "#"


def _merged(blanks: re.Match[str]) -> str:
    return "?" if "?" in blanks[0] else "#"
