"""``@app.recurring(…)``: the schedules that code declares, checked where they are written."""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from mainspring.app.consumers import ConsumerOptions
from mainspring.app.envelope import Envelope
from mainspring.app.functions import is_reloaded
from mainspring.app.names import check_schedule, check_topic
from mainspring.app.options import Setting, choice, flag, refuse_unknown
from mainspring.app.overrides import Ignored, Overrides
from mainspring.app.registration import Registration
from mainspring.app.timings import TimingOptions, check_has_occurrences, read_timing
from mainspring.model.errors import BadOption, Conflict, Unreadable
from mainspring.model.schedule import Mode
from mainspring.runtime.schedules.plan import Code, read_plan
from mainspring.runtime.schedules.reconciliation import Declared

_logger = logging.getLogger("mainspring.schedules")


class RecurringOptions(ConsumerOptions, TimingOptions, total=False):
    """What ``@app.recurring(rhythm, …)`` accepts; None is the same as leaving an option out."""

    name: str | None
    """The schedule's name in the database [the group]."""
    mode: Mode | None
    """"direct": to this consumer alone. "publish": to every group of ``topic`` ["direct"; "publish" with a topic]."""
    topic: str | None
    """The topic that is published to in mode "publish" [the name]."""
    payload: object
    """What the handler is given [None]."""
    offline: bool | None
    """Whether it goes on by this host's clock, on every node, while the database is away [False]."""


@dataclass(frozen=True, slots=True)
class Recurring:
    """A schedule as code declares it, names as the user wrote them."""

    name: str
    group: str
    mode: Mode
    topic: str
    function: Callable[..., Any]
    declared: Declared


class Recurrences:
    """The schedules of an app's code, by name."""

    def __init__(self, envelope: Envelope, overrides: Mapping[str, Setting]) -> None:
        self._envelope = envelope
        self.overrides: Overrides = Overrides(overrides)
        self._known: dict[str, Recurring] = {}

    def __iter__(self) -> Iterator[Recurring]:
        """In the order of registration."""
        return iter(self._known.values())

    def __len__(self) -> int:
        """How many there are."""
        return len(self._known)

    def check(self, rhythm: object, options: Mapping[str, Any]) -> None:
        """Raise what is wrong with these, as far as it can be said before the function is known."""
        if callable(rhythm) and not hasattr(rhythm, "next"):
            raise BadOption(
                "@app.recurring has no parentheses: write @app.recurring('0 9 * * mon-fri'), or with every('90s')"
            )
        if rhythm is None:
            raise BadOption("@app.recurring(rhythm, …) needs a rhythm: '0 9 * * mon-fri' or every('90s')")
        refuse_unknown(options, RecurringOptions.__annotations__, "@app.recurring(…)")
        read_timing(rhythm, options)

    def topics(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """What the function subscribes to besides: its topic, where that is published to."""
        mode = _mode(options)
        topic = options.get("name") if options.get("topic") is None else options["topic"]
        if mode == "direct":
            if options.get("topic") is not None:
                raise BadOption("topic= is for mode='publish': direct occurrences go to this consumer alone")
            return ()
        if topic is None:
            raise BadOption(
                "mode='publish' needs topic=…, the topic that every occurrence is published to, or a name=… that is it"
            )
        return (check_topic(topic),)

    def add(self, rhythm: object, options: Mapping[str, Any], registration: Registration) -> Recurring:
        """Remember the schedule of this consumer. Raises what is wrong with it."""
        name = check_schedule(registration.group if options.get("name") is None else options["name"])
        fields, code = read_timing(rhythm, options)
        mode = _mode(options)
        topic = self.topics(options)[0] if mode == "publish" else name
        body, content_type = self._envelope.encode(options.get("payload"), topic)
        self._check_payload(body, content_type, options, registration)
        definition = {
            **fields,
            "mode": mode,
            "topic": topic,
            "group": registration.group,
            "payload": b64encode(body).decode(),
            "content_type": content_type,
        }
        plan = read_plan(definition, code)
        check_has_occurrences(plan, f"@app.recurring {name}", datetime.now(UTC), may_be_over=True)
        offline = flag(options.get("offline") or False, "offline")
        if offline and (mode == "publish" or registration.cpu or registration.transactional is not None):
            raise BadOption(
                f"{registration.name}: offline=True runs this function itself while there is no database, so it goes "
                "neither with mode='publish' nor with cpu=True or transactional="
            )
        made = Recurring(
            name, registration.group, mode, topic, registration.function, Declared(definition, {}, code, offline)
        )
        other = self._known.get(name)
        if other is not None and not _is_again(other, made):
            raise Conflict(f"the schedule {name!r} is there already, of {other.group}: give this one another name=…")
        self._known[name] = made
        return made

    def _check_payload(
        self, body: bytes, content_type: str, options: Mapping[str, Any], registration: Registration
    ) -> None:
        if registration.decode is None:
            return
        try:
            registration.decode(body, content_type)
        except Unreadable as error:
            given = f"payload={options['payload']!r}" if "payload" in options else "without payload=…"
            raise BadOption(f"@app.recurring of {registration.name}, {given}: {error}") from error

    def code(self, name: str) -> Code | None:
        """What only code can tell of this schedule's days."""
        known = self._known.get(name)
        return None if known is None else known.declared.code

    def declared(self) -> dict[str, Declared]:
        """Every schedule by its name, with what configuration says of it."""
        found, ignored = self.configured()
        for each in ignored:
            _logger.log(each.level, "%s", each)
        return found

    def configured(self) -> tuple[dict[str, Declared], list[Ignored]]:
        """Every schedule by its name, with what configuration says of it; and what of that is not followed."""
        return self.overrides.laid_over({name: each.declared for name, each in self._known.items()})


def _is_again(before: Recurring, now: Recurring) -> bool:
    """Whether it is the same schedule once more: registered twice alike, or its module was loaded anew."""
    if before.function is now.function:
        return before.declared.definition == now.declared.definition
    return before.group == now.group and is_reloaded(before.function, now.function)


def _mode(options: Mapping[str, Any]) -> Mode:
    mode = options.get("mode") or ("publish" if options.get("topic") is not None else "direct")
    return "publish" if choice(mode, ("direct", "publish"), "mode") == "publish" else "direct"
