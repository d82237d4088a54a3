"""Print the figures of the house: ``python -m tests.house.figures [ROOT]``, for this checkout or another one."""

from __future__ import annotations

import ast
import re
import statistics
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

BANNED = r"\b(?:whoeve[r]|somebod[y]|nobod[y]|ane[w]|meanwhil[e])\b"
_SHOWN = 10


def spoken(root: Path) -> list[Path]:
    """The files that people read. Migrations are not among them: databases have stored the hash of their text."""
    suffixes = {".py", ".sql", ".js", ".html", ".md"}
    rooms = (root / "src", root / "docs")
    files = (path for room in rooms for path in sorted(room.rglob("*")) if path.suffix in suffixes)
    return [path for path in files if "migrations" not in path.parts]


class House:
    """One checkout, read once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.texts = {path: path.read_text(encoding="utf-8") for path in sorted((root / "src").rglob("*.py"))}
        self.trees = {path: ast.parse(text) for path, text in self.texts.items()}

    def figures(self) -> Iterator[tuple[str, object]]:
        """What there is to print, line by line."""
        lines = {path: text.count("\n") for path, text in self.texts.items()}
        largest = max(lines, key=lines.__getitem__)
        imports = sum(self._import_lines(tree) for tree in self.trees.values())
        code = sum(map(_code_lines, self.texts.values()))
        statements = [path for path in (self.root / "src").rglob("*.sql") if path.parent.name != "migrations"]
        tests = sorted((self.root / "tests").rglob("*.py"))
        yield "Python lines", sum(lines.values())
        yield "  of code, without blank lines, comments and docstrings", code
        yield "  of imports", f"{imports} ({imports / sum(lines.values()):.1%})"
        yield "Python files", len(lines)
        yield "  median and largest", f"{statistics.median(lines.values()):.0f}, {lines[largest]} ({largest.name})"
        yield "  imported by exactly one other", sum(count == 1 for count in self._importers().values())
        yield "SQL files, without migrations", len(statements)
        yield "SQL lines, without migrations", sum(path.read_text().count("\n") for path in statements)
        yield "definitions per operation, the ten worst", self._worst()
        yield "public names", len(self._public())
        yield "glossary terms", len(re.findall(r"(?m)^\| \*\*", self._page("docs/glossary.md")))
        yield "banned words in src and docs", self._banned()
        yield "test lines", sum(path.read_text().count("\n") for path in tests)
        yield "test functions", sum(len(re.findall(r"(?m)^(?:async )?def test_", path.read_text())) for path in tests)

    def _import_lines(self, tree: ast.Module) -> int:
        found = (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))
        return sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in found)

    def _importers(self) -> Counter[str]:
        names = {self._dotted(path) for path in self.texts}
        importers: dict[str, set[str]] = {name: set() for name in names}
        for path, tree in self.trees.items():
            for node in ast.walk(tree):
                wanted = []
                if isinstance(node, ast.Import):
                    wanted = [each.name for each in node.names]
                elif isinstance(node, ast.ImportFrom) and node.module:
                    wanted = [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
                for name in names.intersection(wanted):
                    importers[name].add(self._dotted(path))
        return Counter({name: len(by - {name}) for name, by in importers.items()})

    def _dotted(self, path: Path) -> str:
        return ".".join(path.relative_to(self.root / "src").with_suffix("").parts).removesuffix(".__init__")

    def _worst(self) -> str:
        """The operations of the storage contract that are defined most often, over all of src."""
        contract = [path for path in self.trees if "contract" in path.parts and "storage" in path.parts]
        wanted = {name for path in contract for name in _defined(self.trees[path])}
        counts = Counter(name for tree in self.trees.values() for name in _defined(tree) if name in wanted)
        return ", ".join(f"{name} {count}" for name, count in counts.most_common(_SHOWN))

    def _public(self) -> list[str]:
        tree = self.trees[self.root / "src" / "mainspring" / "__init__.py"]
        for node in tree.body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
                return list(ast.literal_eval(node.value))
        return []

    def _banned(self) -> int:
        wanted = re.compile(BANNED, re.IGNORECASE)
        return sum(len(wanted.findall(path.read_text(encoding="utf-8"))) for path in spoken(self.root))

    def _page(self, name: str) -> str:
        path = self.root / name
        return path.read_text(encoding="utf-8") if path.exists() else ""


def _defined(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            yield node.name


def _code_lines(text: str) -> int:
    tree = ast.parse(text)
    prose: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            prose.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(text.splitlines(), start=1)
    return sum(bool(line.strip()) and not line.lstrip().startswith("#") and at not in prose for at, line in lines)


def main() -> None:
    """Print them."""
    root = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else Path(__file__).parents[2]
    for name, value in House(root).figures():
        print(f"{name:<58} {value}")


if __name__ == "__main__":
    main()
