"""Looking over what configuration says of schedules: which it sets, and what of it is not followed."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from mainspring.app.config import Options
from mainspring.app.diagnosis import Finding
from mainspring.app.mainspring import Mainspring
from mainspring.app.overrides import Ignored
from mainspring.model.symptom import Grade


def of_schedules(app: Mainspring, spec: str) -> Iterator[Finding]:
    """The schedules in the code, and how the variables and the file go together with them."""
    recurrences = app._registry.recurrences  # noqa: SLF001 - of the same package: only doctor needs what was not followed
    declared, ignored = recurrences.configured()
    if declared:
        yield Finding("schedules", "ok", f"{len(declared)} in {spec}: {', '.join(declared)}")
    settings = {name: recurrences.overrides.setting(name) for name, each in declared.items() if each.overrides}
    followed = [f"{name} ({setting.source})" for name, setting in settings.items() if setting is not None]
    if followed:
        yield Finding("schedules", "ok", f"set by configuration: {', '.join(followed)}")
    for each in ignored:
        grade, advice = _remedy(each, app.options.name, declared)
        yield Finding("schedules", grade, str(each), advice)


def of_schedules_unseen(options: Options) -> Iterator[Finding]:
    """What is set for schedules where no application says which there are."""
    if options.schedules:
        summary = f"set by configuration, and looked at only with an application: {', '.join(options.schedules)}"
        yield Finding("schedules", "note", summary, "mainspring doctor MODULE:APP")


def _remedy(ignored: Ignored, app: str, names: Collection[str]) -> tuple[Grade, str]:
    if ignored.schedule is not None:
        return "error", "correct it there; `mainspring cron RHYTHM` says what a rhythm means"
    there = f"the schedules of {app} are {', '.join(names)}" if names else f"{app} has no schedules"
    if ignored.is_variable:
        return "warning", f"unset or rename it: {there}"
    return "warning", f"remove or rename it: {there}. What is another app's belongs into [apps.NAME.schedules]"
