"""The page on metrics lists every metric there is, as it is."""

import re

from mainspring.model.measures import SPANS, WINDOWS
from mainspring.telemetry.metrics import CATALOGUE
from tests.house.tree import ROOT

PAGE = (ROOT / "docs" / "how-to" / "metrics.md").read_text()
_ROW = re.compile(r"^\| `(mainspring_\w+)` \| (\w+) \| ([^|]*)\| (\w+) \| (.*) \|$", re.MULTILINE)


def test_the_page_lists_the_metrics_there_are() -> None:
    written = [
        (name, kind, tuple(re.findall(r"`(\w+)`", labels)), whose, tells)
        for name, kind, labels, whose, tells in _ROW.findall(PAGE)
    ]

    assert written == [(each.name, each.kind, each.labels, each.whose, each.help) for each in CATALOGUE]


def test_names_are_told_once_and_end_as_they_should() -> None:
    names = [each.name for each in CATALOGUE]

    assert len(names) == len(set(names))
    assert [each.name for each in CATALOGUE if each.name.endswith("_total") != (each.kind == "counter")] == []
    assert [each.name for each in CATALOGUE if each.kind == "histogram" and not each.name.endswith("_seconds")] == []


def test_the_page_tells_the_windows_there_are() -> None:
    for span, unit in ((10, "10 seconds"), (600, "10 minutes")):
        named = ", ".join(f"`{window}`" for window, (of, _) in WINDOWS.items() if of == span)
        many = ", ".join(str(count) for of, count in WINDOWS.values() if of == span)
        kept = SPANS[span]
        told = f"{kept.days} days" if kept.days else f"{kept.seconds // 3600} hours"

        assert f"| {named} | {unit} | {many} | {told} |" in PAGE
