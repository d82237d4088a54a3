"""Diagnosis of a fleet: what names its databases, and each of them. Read-only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mainspring.app.fleet.databases import Chosen
from mainspring.app.fleet.report import over
from mainspring.app.observe.doctor import of_app
from mainspring.app.options import closest
from mainspring.model.symptom import Symptom
from mainspring.model.text import described

if TYPE_CHECKING:
    from mainspring.app.fleet.fleet import Fleet


async def of_fleet(fleet: Fleet, spec: str, databases: Chosen, flags: Callable[[str | None], str]) -> list[Symptom]:
    """Check what names the databases, and the chosen ones.

    What is alike in all is reported once. ``flags`` returns the command-line flags for a database, or for all.
    """
    await fleet.refresh()
    findings = list(_of_names(fleet, spec))
    # Same package: the members are what an operation of the fleet works on.
    flags_of = {each.app: flags(each.name) for each in fleet._chosen(databases)}  # noqa: SLF001
    report = await over(fleet._chosen(databases), lambda app: of_app(app, spec, flags_of[app]))  # noqa: SLF001
    for name, error in report.errors.items():
        findings.append(Symptom(name, "error", described(error)))
    general = {
        name: [_for_all(each, flags(name), flags(None)) for each in found] for name, found in report.results.items()
    }
    shared = _shared(general)
    findings += shared
    for name, found in report.results.items():
        own = [each for each, alike in zip(found, general[name], strict=True) if alike not in shared]
        findings += _of_member(name, own)
    return findings


def _of_names(fleet: Fleet, spec: str) -> Iterator[Symptom]:
    named, home = fleet._databases, fleet._home_name  # noqa: SLF001 - same package: health() has these as checks
    if named.trouble is not None:
        advice = "correct the function that is given to Fleet(app, …)"
        yield Symptom("databases", "error", f"failed to ask for them: {named.trouble}", advice)
        return
    yield Symptom("databases", "ok", f"{len(fleet)} in {spec}")
    for name, why in sorted(named.rejected.items()):
        yield Symptom(name, "error", why, "correct this entry; the others are used")
    if home is not None and home not in fleet:
        summary = f"home={home!r} is no database of the fleet.{closest(home, list(fleet))}".removesuffix(".")
        yield Symptom("home", "error", summary, "name one of them: Fleet(…, home='acme')")


def _for_all(symptom: Symptom, one: str, every: str) -> Symptom:
    """Return the symptom with the command for all databases in the place of that for one."""
    return replace(symptom, advice=symptom.advice.replace(one, every)) if one else symptom


def _shared(findings: Mapping[str, Sequence[Symptom]]) -> list[Symptom]:
    """Return what was found in every database, if there are several."""
    counts = Counter(each for found in findings.values() for each in set(found))
    first = next(iter(findings.values()), ())
    return [each for each in dict.fromkeys(first) if len(findings) > 1 and counts[each] == len(findings)]


def _of_member(name: str, findings: Sequence[Symptom]) -> Iterator[Symptom]:
    """Return what is wrong there, or one line if nothing is."""
    wrong = [each for each in findings if each.grade != "ok"]
    for each in wrong:
        yield replace(each, about=f"{name}: {each.about}")
    if not wrong:
        yield Symptom(
            name, "ok", next((each.summary for each in findings if each.about == "database"), "as the others")
        )
