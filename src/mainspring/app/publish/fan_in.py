"""From the arguments of ``join`` and ``send(then=…)`` to members and what follows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast
from uuid import UUID

from mainspring.app.consume.consumer import registration_of
from mainspring.app.consume.consumers import Consumers
from mainspring.app.consume.registration import Registration
from mainspring.app.message.envelope import MISSING, Envelope, JoinOptions, SendOptions
from mainspring.app.options import refuse_unknown
from mainspring.model.errors import BadOption, Unreadable
from mainspring.model.join import Join
from mainspring.model.message import Draft

MOST = 10_000
"""The most members of a join: they are stored in one transaction."""

_KNOWN = JoinOptions.__annotations__.keys()
_FOLLOWING = ("then", "failed")


@dataclass(frozen=True, slots=True)
class Bundle:
    """A join and its members, ready to be stored as one."""

    join: Join
    members: tuple[Draft, ...]

    @property
    def drafts(self) -> list[Draft]:
        """All its drafts, published now or later."""
        return [*self.members, *filter(None, (self.join.then, self.join.failed))]

    def of(self, drafts: Sequence[Draft]) -> Bundle:
        """Return a copy with these ``drafts``, in their order."""
        rest = iter(drafts)
        members = tuple(next(rest) for _ in self.members)
        join = self.join
        return Bundle(
            replace(join, then=join.then and next(rest), failed=join.failed and next(rest)),
            members,
        )


class FanIn:
    """Reader of joins. Every check of a join happens here, before anything is stored."""

    def __init__(self, consumers: Consumers, envelope: Envelope) -> None:
        self._consumers = consumers
        self._envelope = envelope

    def join(self, members: Any, options: JoinOptions, call: str, causation_id: UUID | None = None) -> Bundle:
        """Return the join of these members; the message ``causation_id`` is its cause."""
        refuse_unknown(options, _KNOWN, call)
        id = self._envelope.identity()
        shared = {"key": options.get("key"), "correlation_id": options.get("correlation_id") or str(id)}
        drafts = tuple(self._member(each, shared, call, causation_id) for each in _counted(members, call))
        if not drafts:
            raise BadOption(f"{call} has no members: give at least one, as in {_example(call)}")
        return Bundle(self._join(id, options, shared, call, causation_id), drafts)

    def chain(self, member: Draft, options: SendOptions, call: str) -> Bundle:
        """Return a join of one: it is the cause of what follows, which shares its correlation."""
        shared = {
            "key": member.key,
            "correlation_id": member.correlation_id or str(member.id),
            "priority": member.priority,
        }
        return Bundle(self._join(self._envelope.identity(), options, shared, call, member.id), (member,))

    def _join(
        self,
        id: UUID,
        options: JoinOptions | SendOptions,
        shared: Mapping[str, Any],
        call: str,
        causation_id: UUID | None,
    ) -> Join:
        following = dict.fromkeys(_FOLLOWING, cast("Draft | None", None))
        for option in _FOLLOWING:
            given = cast("Mapping[str, Any]", options).get(option)
            if given is not None:
                consumer, payload = self._addressed(given, f"{option}=", call)
                draft = self._draft(consumer, payload, {**shared, "message_id": id}, call, causation_id)
                if payload is MISSING:
                    _check_takes_nothing(consumer, draft, f"{option}=", call)
                following[option] = draft
        if not any(following.values()):
            raise BadOption(f"{call} has neither then= nor failed=: nothing would follow. Write {_example(call)}")
        return Join(id, **following)

    def _member(self, given: object, shared: Mapping[str, Any], call: str, causation_id: UUID | None) -> Draft:
        consumer, payload = self._addressed(given, "a member ", call)
        draft = self._draft(consumer, payload, shared, call, causation_id)
        if payload is MISSING:
            _check_takes_nothing(consumer, draft, "a member ", call)
        return draft

    def _addressed(self, given: object, where: str, call: str) -> tuple[Registration, object]:
        """Return the consumer and its payload; MISSING without one."""
        consumer, payload = given if type(given) is tuple and len(given) == 2 else (given, MISSING)  # noqa: PLR2004
        found = registration_of(consumer)
        if found is None:
            named = ": a topic may have any number of groups" if isinstance(consumer, str) else ""
            raise BadOption(
                f"{call}: {where}{consumer!r} is no consumer{named}. Pass the function or class under @app.consumer, "
                "itself or as (consumer, payload)"
            )
        if not any(each is found or each.function is found.function for each in self._consumers):
            raise BadOption(
                f"{call}: {where}{found.name} is a consumer of another app: pass one that was registered by "
                "@app.consumer of this app"
            )
        return found, payload

    def _draft(
        self,
        consumer: Registration,
        payload: object,
        options: Mapping[str, Any],
        call: str,
        causation_id: UUID | None,
    ) -> Draft:
        return self._envelope.draft(
            None if payload is MISSING else payload,
            MISSING,
            options,
            group=consumer.group,
            topic=consumer.topic,
            causation_id=causation_id,
            call=call,
        )


def follows(options: SendOptions) -> bool:
    """Return whether a follow-up is given."""
    return options.get("then") is not None or options.get("failed") is not None


def alone(options: SendOptions) -> Mapping[str, Any]:
    """Return the message's own options."""
    given = cast("Mapping[str, Any]", options)
    if "then" not in given and "failed" not in given:
        return given
    return {name: value for name, value in given.items() if name not in _FOLLOWING}


def _counted(members: Any, call: str) -> Iterable[object]:
    if isinstance(members, str | bytes | Mapping) or not isinstance(members, Iterable):
        raise BadOption(f"{call} takes a list of (consumer, payload), not {members!r}: write {_example(call)}")
    for place, each in enumerate(members):
        if place == MOST:
            raise BadOption(
                f"{call} has more than {MOST:,} members, which are stored in one transaction: let each member be the "
                "join of a part"
            )
        yield each


def _check_takes_nothing(consumer: Registration, draft: Draft, where: str, call: str) -> None:
    if consumer.decode is None:
        return
    try:
        consumer.decode(draft.payload, draft.content_type)
    except Unreadable:
        raise BadOption(
            f"{call}: {where}{consumer.group} takes a payload, and none was given: write ({consumer.group}, payload)"
        ) from None


def _example(call: str) -> str:
    name = call.partition("(")[0]
    return f"{name}([(resize, photo), …], then=publish_album)"
