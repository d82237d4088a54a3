"""One consumer: as registered, read and checked; and as decorated, with a typed way to send it messages."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, ParamSpec, Protocol, TypeVar, Unpack, overload

from mainspring.app.blocking import Face, Renamed, blocking
from mainspring.app.consume import signature
from mainspring.app.consume.backpressure import PendingLimit, serving
from mainspring.app.consume.batch import compile_batch_call, lone, shown_batch
from mainspring.app.consume.context import Context, Publishing
from mainspring.app.consume.cpu import program
from mainspring.app.consume.limits import shown_limits
from mainspring.app.consume.middleware import CursorAdvance, Middleware, around, inside
from mainspring.app.consume.signature import Consumer
from mainspring.app.message.envelope import SendOptions
from mainspring.app.transaction.consumers import LentConnections
from mainspring.app.transaction.sources import Source
from mainspring.model.errors import BadOption
from mainspring.model.limits import Limits
from mainspring.model.message import Keep, Receipt
from mainspring.model.schedule import DeadLetters
from mainspring.model.views import Declaration
from mainspring.runtime.handler import Batching, Call, Handler
from mainspring.storage.codec import Decode
from mainspring.timing.backoff import RetryPolicy
from mainspring.timing.breaker import Breaker
from mainspring.timing.duration import spell

if TYPE_CHECKING:
    from mainspring.app.blocking import Background
    from mainspring.app.publisher import Publisher
    from mainspring.runtime.intake import Feed
    from mainspring.telemetry.spans import Spans

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")
C = TypeVar("C", bound=Consumer[Any])
T_contra = TypeVar("T_contra", contravariant=True)


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
    retry_scheduled: RetryPolicy | None = None
    """The policy for occurrences of schedules that name none [``retry``]."""
    dead: DeadLetters = "latest"
    """Which dead letters are kept of schedules that do not say so."""
    cpu: bool = False
    breaker: Breaker | None = None
    middleware: tuple[Middleware, ...] = ()
    transactional: Source | None = None
    batching: Batching | None = None
    pending_limit: PendingLimit | None = None
    """How many may wait for it."""
    limits: Limits | None = None
    newer_wait: timedelta = timedelta(days=1)
    """How long a message of a newer version waits for a worker that can read it."""
    takes_less: ClassVar[bool] = False
    """Whether smaller batches than it can take are as good."""
    receives: ClassVar[str] = "no topic: its schedule, or .send"
    """What it receives without topics, for people."""

    def handler(
        self, app: Publishing, lending: LentConnections | None = None, outermost: tuple[Middleware, ...] = ()
    ) -> Handler:
        """Return what the runtime runs, ``outermost`` around its middleware.

        Without ``lending`` the caller of a transactional one opens the transaction.
        """
        call = bare = self._call(app)
        if self.transactional is not None and lending is not None:
            succeeding = next((each.script for each in self.middleware if isinstance(each, CursorAdvance)), None)
            call = lending.around(
                bare, self.transactional, self.group, self.concurrency, succeeding, threaded=self.threaded
            )
        return Handler(
            group=self.group,
            call=call,
            retry=self.retry,
            threaded=self.threaded,
            concurrency=self.concurrency,
            timeout=self.timeout,
            keep=self.keep,
            keep_scheduled=self.keep_scheduled,
            retry_scheduled=self.retry_scheduled,
            dead=self.dead,
            around=around((*outermost, *self.middleware), app, batch=self.batching is not None),
            breaker=self.breaker,
            program=program(self.function, self.name, self.group) if self.cpu else None,
            bare=None if self.transactional is None else bare,
            ended=None if self.transactional is None or lending is None else lending.lender.close,
            batching=self.batching,
            limits=self.limits,
            newer_wait=self.newer_wait,
        )

    @property
    def feeds(self) -> str | None:
        """The group whose messages it reads from a broker, and with which it is served; None for most."""
        return None

    def feed(self, spans: Spans | None) -> Feed | None:  # noqa: ARG002 - for intakes
        """Return what a worker reads from a broker for it; None for most."""
        return None

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


class Taking(Protocol[T_contra]):
    """A callable that takes a payload first: it gives ``send`` the payload's type."""

    def __call__(self, payload: T_contra, /, *args: Any, **kwargs: Any) -> object:
        """Call it."""
        ...


class TakingMany(Protocol[T]):
    """A callable that takes a list of payloads first: a batch consumer, which is sent one."""

    def __call__(self, payload: list[T], /, *args: Any, **kwargs: Any) -> object:
        """Call it."""
        ...


class Consumed(Renamed, Generic[P, R_co]):
    """A registered handler. Calling it calls the function; ``send`` goes through the database."""

    __name__: str
    __qualname__: str

    def __init__(self, function: Callable[P, R_co], registration: Registration, app: Callable[[], Publisher]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._registration = registration
        self._app = app

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function itself, here and now."""
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        """Show its name and group."""
        return f"<consumer {self._registration.name}, group {self.group!r}>"

    @property
    def function(self) -> Callable[P, R_co]:
        """The function as it was written."""
        return self._function

    @property
    def group(self) -> str:
        """The consumer's name in the database."""
        return self._registration.group

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics and patterns it subscribes to."""
        return self._registration.topics

    @property
    def sync(self) -> SyncConsumed[P, R_co]:
        """``.sync.send(…)``, for blocking code."""
        publisher, background = self._app().blocking
        return SyncConsumed(Consumed(self._function, self._registration, lambda: publisher), background)

    @overload
    async def send(self: Consumed[[], R_co], payload: None = None, **options: Unpack[SendOptions]) -> Receipt: ...

    @overload
    async def send(
        self: Consumed[[Context], R_co], payload: None = None, **options: Unpack[SendOptions]
    ) -> Receipt: ...

    @overload
    async def send(self: Taking[T], payload: T, **options: Unpack[SendOptions]) -> Receipt: ...

    @overload
    async def send(self: TakingMany[T], payload: T, **options: Unpack[SendOptions]) -> Receipt: ...

    async def send(self, payload: Any = None, *more: object, **options: Unpack[SendOptions]) -> Receipt:
        """Send a message to this consumer only, whatever others subscribe to; options as ``app.publish``.

        With ``then`` and ``failed`` another consumer follows when this one is done, or when it has failed for good.
        """
        if more:
            name = self._registration.group
            raise BadOption(f"{name}.send(…) takes one payload, not {len(more) + 1}: write {name}.send({{'id': 7}})")
        return await self._app().send(self._registration, lone(self._registration, payload), options)


class SyncConsumed(Face[Consumed[P, R_co]], Generic[P, R_co]):
    """A registered handler for blocking code. Calling it calls the function."""

    def __init__(self, consumed: Consumed[P, R_co], background: Background) -> None:
        super().__init__(consumed, background, f"{consumed.group}.sync", consumed.group)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function itself, here and now."""
        return self._target(*args, **kwargs)

    if TYPE_CHECKING:  # a twin carries one signature over, and this one has four

        @overload
        def send(self: SyncConsumed[[], R_co], payload: None = None, **options: Unpack[SendOptions]) -> Receipt: ...

        @overload
        def send(
            self: SyncConsumed[[Context], R_co], payload: None = None, **options: Unpack[SendOptions]
        ) -> Receipt: ...

        @overload
        def send(self: Taking[T], payload: T, **options: Unpack[SendOptions]) -> Receipt: ...

        @overload
        def send(self: TakingMany[T], payload: T, **options: Unpack[SendOptions]) -> Receipt: ...

        def send(self, payload: Any = None, **options: Unpack[SendOptions]) -> Receipt:
            """See ``Consumed.send``."""
            ...

    else:
        send = blocking(Consumed.send)


class ClassSender:
    """Sender to a consumer that is a class."""

    def __init__(self, registration: Registration, app: Callable[[], Publisher]) -> None:
        self._registration = registration
        self._app = app

    @property
    def sync(self) -> SyncClassSender:
        """``.sync.send(…)``, for blocking code."""
        publisher, background = self._app().blocking
        name = self._registration.group
        return SyncClassSender(ClassSender(self._registration, lambda: publisher), background, name, name)

    async def send(self, payload: object, **options: Unpack[SendOptions]) -> Receipt:
        """Publish to this consumer only."""
        return await self._app().send(self._registration, lone(self._registration, payload), options)


class SyncClassSender(Face[ClassSender]):
    """Sender to a consumer that is a class, for blocking code."""

    send: Final = blocking(ClassSender.send)


def registration_of(registered: Any) -> Registration | None:
    """Return the registration of this consumer, function or class; None for anything else."""
    if isinstance(registered, type):
        registered = registered.__dict__.get("mainspring")
    return registered._registration if isinstance(registered, Consumed | ClassSender) else None  # noqa: SLF001


class Registrar(Protocol):
    """The decorator of ``@app.consumer(…)``: it returns the function's registered twin; a class stays."""

    @overload
    def __call__(self, function: type[C], /) -> type[C]: ...  # type: ignore[overload-overlap]  # a class is a callable

    @overload
    def __call__(self, function: Callable[P, R_co], /) -> Consumed[P, R_co]: ...

    def __call__(self, function: Any, /) -> Any:
        """Register the function or class."""
        ...
