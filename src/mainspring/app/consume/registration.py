"""A consumer as registered: everything about it read and checked, ready for the runtime and the database."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from mainspring.app.consume import signature
from mainspring.app.consume.batch import compile_batch_call, shown_batch
from mainspring.app.consume.context import Publishing
from mainspring.app.consume.cpu import program
from mainspring.app.consume.limits import PendingLimit, serving, shown_limits
from mainspring.app.consume.middleware import CursorAdvance, Middleware, around, inside
from mainspring.app.transaction.consumers import LentConnections, within
from mainspring.app.transaction.sources import Source
from mainspring.model.limits import Limits
from mainspring.model.message import Keep
from mainspring.model.views import Declaration
from mainspring.runtime.handler import Batching, Call, Handler
from mainspring.storage.codec import Decode
from mainspring.timing.backoff import RetryPolicy
from mainspring.timing.breaker import Breaker
from mainspring.timing.duration import spell


@dataclass(frozen=True, slots=True)
class Registration:
    """A consumer as registered: names as the user wrote them."""

    group: str
    name: str
    function: Callable[..., Any]
    shape: signature.Shape
    decode: Decode | None
    topics: tuple[str, ...]
    topic: str
    """The topic of what is sent to it alone."""
    retry: RetryPolicy
    timeout: timedelta | None
    concurrency: int
    keep: Keep
    threaded: bool
    keep_scheduled: Keep = "all"
    """How much history occurrences of schedules leave."""
    cpu: bool = False
    breaker: Breaker | None = None
    middleware: tuple[Middleware, ...] = ()
    transactional: Source | None = None
    batching: Batching | None = None
    pending_limit: PendingLimit | None = None
    """How many may wait for it."""
    limits: Limits | None = None

    def handler(
        self, app: Publishing, lending: LentConnections | None = None, outermost: tuple[Middleware, ...] = ()
    ) -> Handler:
        """Return what the runtime runs, ``outermost`` around its middleware.

        Without ``lending`` the caller of a transactional one opens the transaction.
        """
        call = bare = self._call(app)
        if self.transactional is not None and lending is not None:
            succeeding = next((each.script for each in self.middleware if isinstance(each, CursorAdvance)), None)
            around_it = lending.around(
                self.transactional, self.group, self.concurrency, threaded=self.threaded, succeeding=succeeding
            )
            call = within(bare, around_it, threaded=self.threaded)
        return Handler(
            group=self.group,
            call=call,
            retry=self.retry,
            threaded=self.threaded,
            concurrency=self.concurrency,
            timeout=self.timeout,
            keep=self.keep,
            keep_scheduled=self.keep_scheduled,
            around=around((*outermost, *self.middleware), app, batch=self.batching is not None),
            breaker=self.breaker,
            program=program(self.function, self.name, self.group) if self.cpu else None,
            bare=None if self.transactional is None else bare,
            ended=None if self.transactional is None or lending is None else lending.lender.close,
            batching=self.batching,
            limits=self.limits,
        )

    def _call(self, app: Publishing) -> Call:
        if self.batching is not None and self.decode is not None:
            call = compile_batch_call(self.shape, self.decode, app)
        else:
            call = signature.compile_call(self.shape, self.decode, app)
        if self.pending_limit is not None and self.pending_limit.when_full == "wait" and not self.cpu:
            call = serving(self.group, call, threaded=self.threaded)
        if self.cpu:
            return call
        return inside(self.middleware, app, call, threaded=self.threaded, batch=self.batching is not None)

    def declaration(self, owner: str, version: int = 0) -> Declaration:
        """Return its declaration."""
        return Declaration(
            group=self.group,
            app=owner,
            patterns=self.topics,
            handler=self.name,
            options={
                "retry": self.retry.name,
                "timeout": "none" if self.timeout is None else spell(self.timeout),
                "concurrency": str(self.concurrency),
                "keep": self.keep,
                **shown_batch(self.batching),
                **shown_limits(self.limits),
                **({} if self.breaker is None else {"breaker": str(self.breaker)}),
                **({} if self.pending_limit is None else self.pending_limit.shown),
                **({} if self.transactional is None else {"transactional": self.transactional.shown}),
                "kind": "process" if self.cpu else "thread" if self.threaded else "async",
            },
            version=version,
        )
