"""Pages of the documentation, and the blocks in them that are executed."""

import re
from dataclasses import dataclass
from pathlib import Path

from tests.house.tree import ROOT

PLACEHOLDER = "postgresql://localhost/shop"
"""What pages write for a PostgreSQL database; a page that runs is given a real one in its place."""

_FENCE = re.compile(r"^( *)(`{3,}|~{3,})\s*([\w+-]*)")
_BLOCK = re.compile(r"^ *(`{3,}|~{3,}).*?^ *\1`* *$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6} (.*)$", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_EXCUSE = re.compile(r"<!--\s*not run:\s*(.*?)\s*-->")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: `line` is where its first line of code stands in the page."""

    language: str
    line: int
    code: str
    excuse: str | None


def pages() -> list[Path]:
    """README.md and everything under docs/."""
    return [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if page.exists()]


def excuses(page: Path) -> list[str]:
    """The reasons a page gives for blocks that are not run, wherever they stand."""
    return _EXCUSE.findall(page.read_text())


def blocks(page: Path) -> list[Block]:
    """Python, SQL, console and TOML blocks of a page, in order."""
    found: list[Block] = []
    lines = page.read_text().splitlines()
    excuse: str | None = None
    at = 0
    while at < len(lines):
        opening = _FENCE.match(lines[at])
        if opening is None:
            if lines[at].strip():
                said = _EXCUSE.search(lines[at])
                excuse = said[1] if said else None
            at += 1
            continue
        indent, fence, language = opening.groups()
        first = at = at + 1
        while at < len(lines) and not re.fullmatch(rf" *{fence[0]}{{{len(fence)},}} *", lines[at]):
            at += 1
        code = "\n".join(line.removeprefix(indent) for line in lines[first:at]) + "\n"
        if language in {"python", "sql", "console", "sh", "toml"}:
            found.append(Block(language, first + 1, code, excuse))
        excuse = None
        at += 1
    return found


def commands(block: Block) -> list[str]:
    """The commands of a console block that are ours, or Flask's or Django's, continued lines joined."""
    return [command for command, _ in dialogue(block)]


def dialogue(block: Block) -> list[tuple[str, list[str]]]:
    """Every such command with the lines it is shown to answer; lines with an ellipsis are left out."""
    found: list[tuple[str, list[str]]] = []
    typed = ""
    for line in block.code.replace("\\\n", " ").splitlines():
        if line.startswith("$ "):
            typed = line[2:].strip()
            if re.match(r"(\w+=\S+ )*(mainspring|flask|python manage\.py)\b", typed):
                found.append((typed, []))
        elif found and typed == found[-1][0] and line.strip() and "…" not in line:
            found[-1][1].append(line.strip())
    return found


def prose(page: Path) -> str:
    """The text of a page without its fenced blocks."""
    return _BLOCK.sub("", page.read_text())


def anchors(page: Path) -> set[str]:
    """The names of its headings in an address, as GitHub makes them."""
    titles = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title) for title in _HEADING.findall(prose(page)))
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def links(page: Path) -> list[str]:
    """Where its links lead within the repository, as they are written."""
    return [target for target in _LINK.findall(prose(page)) if "://" not in target]
