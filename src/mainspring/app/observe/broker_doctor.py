"""Diagnosis of routes and intakes: whether their brokers respond, and whether workers have them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mainspring.app.broker.brokers import BrokerCheck
from mainspring.app.broker.route import Route
from mainspring.app.broker.state import BrokerState, states
from mainspring.model.redaction import redacted
from mainspring.model.symptom import Grade, Symptom
from mainspring.model.views import Counts, Roster, Tally
from mainspring.storage.patterns import matches

if TYPE_CHECKING:
    from mainspring.app.mainspring import Mainspring

_INSTALL = re.compile(r"pip install '[^']+'")


async def of_brokers(app: Mainspring, spec: str, state: tuple[Roster, Tally] | None) -> list[Symptom]:
    """Check the brokers of the code, all at once, and against what the database has of them if that could be read."""
    if not (code := await app.brokers.list()):
        return []
    known = [] if state is None else states(code, *state)
    found = {each.group: each for each in known}
    symptoms = [each for check in await app.brokers.check() for each in _checked(check, found, spec)]
    symptoms += _unserved([found[each.group] for each in code if each.group in found], spec)
    used = set() if state is None else {each.group for each in state[1].groups if _is_used(each)}
    topics = _topics(app)
    for each in code:
        matched = any(matches(pattern, topic) for pattern in each.topics for topic in topics)
        if each.direction == "out" and each.group not in used and not matched:
            sends = ", ".join(each.topics)
            summary = f"{each.name}: it has sent nothing, and no message type, consumer or schedule has a topic {sends}"
            symptoms.append(Symptom("brokers", "note", summary, "compare it with the topics that are published to"))
    return symptoms


def _topics(app: Mainspring) -> set[str]:
    """Return the topics that the code names, other than those of routes."""
    registry, consumers = app._code.registry, app._code.consumers  # noqa: SLF001 - same package
    return registry.topics().union(*(each.topics for each in consumers if not isinstance(each, Route)))


def _is_used(counts: Counts) -> bool:
    return bool(counts.handled or counts.failed or counts.ready or counts.scheduled or counts.running or counts.dead)


def _checked(check: BrokerCheck, found: dict[str, BrokerState], spec: str) -> Iterator[Symptom]:
    about = check.broker
    if check.ok:
        waits = "" if check.lag is None else f", {check.lag:,} messages wait there"
        yield Symptom("brokers", "ok", f"{about.name}: {about.url} answered in {check.took * 1000:.0f} ms{waits}")
    state = found.get(about.group)
    works = state is not None and state.condition == "connected"
    for problem in check.problems:
        # What workers are connected to is not what stops work: this host may not reach it, or the queue may drop.
        grade: Grade = "warning" if works else "error"
        install = _INSTALL.search(problem)
        again = f"mainspring brokers {'declare' if 'declare=True' in problem else 'check'} {spec}"
        yield Symptom("brokers", grade, f"{about.name}: {redacted(problem)}", again if install is None else install[0])


def _unserved(known: Sequence[BrokerState], spec: str) -> Iterator[Symptom]:
    for each in known:
        if each.condition == "unserved":
            what = "nothing is read" if each.direction == "in" else "messages wait" if each.ready else "nothing is sent"
            summary = f"{each.name}: {what}, since no live worker has it"
            yield Symptom("brokers", "warning", summary, f"mainspring worker {spec}")
