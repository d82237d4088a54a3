"""Options of a queue: its group and topics, how payloads are decoded, and how failures are retried."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, TypedDict, cast

from mainspring.app.config import KEEPS, Options
from mainspring.app.consume.backpressure import PendingLimit, WhenFull, read_pending_limit
from mainspring.app.message.catalogue import Catalogue
from mainspring.app.names import check_own_group, check_pattern
from mainspring.app.options import choice, refuse_unknown, retry_policy
from mainspring.model.errors import BadOption, Unreadable
from mainspring.model.message import Delivery, Keep
from mainspring.model.views import Declaration
from mainspring.model.worker import Declarer, roster_name
from mainspring.runtime.handler import Handler, Run
from mainspring.storage.codec import Decode
from mainspring.timing.backoff import RECURRING, RetryPolicy


class QueueOptions(TypedDict, total=False):
    """Options of ``app.queue`` except the payload's ``type``."""

    retry: RetryPolicy | str | None
    """How failures are retried: a policy, or the name of a preset ["messages"]."""
    keep: Keep | None
    """How much history its deliveries keep [the app's]."""
    pending_limit: int | None
    """How many waiting deliveries make it full, as for a consumer."""
    when_full: WhenFull | None
    """Whether a publisher waits or is rejected when it is full, as for a consumer."""


class QueueSettings:
    """The settings of one queue, checked when it is created. Names as the user wrote them."""

    def __init__(
        self,
        group: object,
        topics: tuple[Any, ...],
        catalogue: Catalogue,
        options: Options,
        type: Any,
        given: QueueOptions,
    ) -> None:
        self.group: str = check_own_group(group)
        refuse_unknown(given, QueueOptions.__annotations__.keys(), f"app.queue({self.group!r})")
        retry, keep = given.get("retry"), given.get("keep")
        self.topics: tuple[str, ...] = tuple(dict.fromkeys(_patterns(topics, catalogue)))
        limits = {name: given.get(name) for name in ("pending_limit", "when_full")}
        self.pending_limit: PendingLimit | None = read_pending_limit(limits, f"app.queue({self.group!r})")
        if self.pending_limit is not None and not self.topics:
            raise BadOption(
                f"app.queue({self.group!r}) has pending_limit= and no topics, so publishers cannot know what "
                f"reaches it: write app.queue({self.group!r}, 'orders.placed', pending_limit=…)"
            )
        kept = cast("Keep", choice(options.keep if keep is None else keep, KEEPS, "keep"))
        self.handler: Handler = Handler(
            self.group,
            _uncalled,
            retry_policy(retry, options.retry),
            keep=kept,
            keep_scheduled="all" if keep is None else kept,
            retry_scheduled=RECURRING if retry is None else None,
            dead=options.dead,
            newer_wait=options.newer_wait,
        )
        """How its deliveries are retried, kept and settled, as a consumer's are; never called."""
        self.tables: str = options.tables
        self._version = options.version
        self._app = options.name
        self._catalogue = catalogue
        self._decode = None if type is None else catalogue.decoder(type)
        self._decoders: dict[str, Decode] = {}

    @property
    def declaration(self) -> Declaration:
        """Its row in the database."""
        return Declaration(
            group=self.group,
            app=self._app,
            patterns=self.topics,
            handler=f"app.queue({self.group!r})",
            options={
                "retry": self.handler.retry.name,
                "keep": self.handler.keep,
                **({} if self.pending_limit is None else self.pending_limit.shown),
                "kind": "queue",
            },
            version=self._version,
        )

    @property
    def declarer(self) -> Declarer:
        """The declarer: all processes whose queue of this group has these topics, as one.

        They may be short-lived, so that the end of one does not mean that its topics are unused; and one record is kept
        for all of them.
        """
        topics = hashlib.sha256("\n".join(sorted(self.topics)).encode()).hexdigest()
        return Declarer(roster_name(self._app, self.group), f"queue {topics[:32]}")

    def read(self, delivery: Delivery) -> Any:
        """Decode the payload as the queue's type, its topic's or plain values."""
        decode = self._decode or self._decoder(delivery.topic)
        try:
            return decode(delivery.payload, delivery.content_type)
        except Unreadable as error:
            raise type(error)(
                f"message {delivery.message_id} on {delivery.topic!r}, for {self.group}: {error}"
            ) from error

    def _decoder(self, topic: str) -> Decode:
        found = self._decoders.get(topic)
        if found is None:
            kind = self._catalogue.type_of(topic)
            found = self._decoders[topic] = self._catalogue.decoder(Any if kind is None else kind)
        return found


def _uncalled(_delivery: Delivery, _run: Run) -> object:
    raise AssertionError("the caller of a queue handles its items")


def _patterns(topics: tuple[Any, ...], catalogue: Catalogue) -> Iterator[str]:
    for topic in topics:
        if isinstance(topic, str):
            yield check_pattern(topic)
            continue
        known = catalogue.topic_of(topic)
        if known is None:
            raise BadOption(
                f"app.queue(…) takes topics and message types, not {topic!r}: write 'orders.placed', or put "
                "@app.message('orders.placed') above the type; the payload type is type=…"
            )
        yield known
