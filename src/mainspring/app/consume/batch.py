"""Batch consumers: their options and signatures, and the call that passes a list."""

from __future__ import annotations

import typing
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from mainspring.app.consume import signature
from mainspring.app.consume.context import BatchContext, Context, Publishing
from mainspring.app.consume.injection import UNTYPED, alone
from mainspring.app.consume.middleware import CursorAdvance, Middleware, overrides
from mainspring.app.consume.signature import Shape
from mainspring.app.options import length, whole
from mainspring.model.errors import BadOption, BadSignature, Misuse
from mainspring.model.message import Delivery
from mainspring.runtime.batch import Batch
from mainspring.runtime.handler import Batching, Call, Run
from mainspring.storage.codec import Decode
from mainspring.timing.duration import spell

if TYPE_CHECKING:
    from mainspring.app.consume.consumer import Registration

BATCH_CONCURRENCY: Final = 10
"""How many batches run at once in one process, by default."""
_LARGEST = 1_000
_LINGER = timedelta(milliseconds=50)
_LONGEST_LINGER = timedelta(minutes=1)
_MOST_IN_HAND = 10_000
"""Messages that one consumer may hold in one process: all are delivered again when it dies."""


def read_batch(options: Mapping[str, Any], shape: Shape, name: str, *, cpu: bool) -> tuple[Shape, Batching | None]:
    """Read the batch options; return the shape with the type of one message in place of the list's."""
    if "batch" not in options:
        if "linger" in options:
            raise BadOption(
                f"linger={options['linger']!r} is how long the first message of a batch waits for others, and {name} "
                "takes one at a time: give it batch=…, too, or leave linger out"
            )
        _refuse_contexts(shape, BatchContext, "which only consumers with batch=… have: write Context")
        return shape, None
    size = whole(options["batch"], "batch", least=1, most=_LARGEST)
    linger = length(options.get("linger", _LINGER), "linger", most=_LONGEST_LINGER)
    if cpu:
        raise BadOption(
            f"{name} has batch= and cpu=True, whose processes are sent one message at a time: drop one of them"
        )
    if shape.plan.resolves:
        raise BadSignature(
            f"{name} takes batches, and the scopes of the app's resolver are of one message: let it have what it needs "
            "by Annotated[…, Depends(provider)]"
        )
    item = _item(shape, name, size)
    _refuse_contexts(shape, Context, "and is called with many messages: write BatchContext")
    return replace(shape, annotation=item), Batching(size, linger.total_seconds())


def check_batch(batching: Batching, concurrency: int, middleware: Sequence[Middleware], handler: str) -> None:
    """Reject one that could hold too many messages, or has middleware for single messages only."""
    if concurrency * batching.size > _MOST_IN_HAND:
        raise BadOption(
            f"concurrency={concurrency} with batch={batching.size} would hold {concurrency * batching.size:,} messages "
            f"in one process, and {_MOST_IN_HAND:,} is the most: lower one of them, since concurrency counts batches"
        )
    for each in middleware:
        kind = type(each)
        if isinstance(each, CursorAdvance):
            raise BadOption(f"{handler} has batch=, and the slices of a fan-out are taken one at a time: drop batch")
        single = [name for name in ("handling", "calling") if overrides(each, name)]
        if single and not any(overrides(each, name) for name in ("handling_batch", "calling_batch")):
            # It may set a tenant, or check a permission: to leave it out silently could do harm.
            twin = (
                "`async def handling_batch(self, ctx: BatchContext, call_next)`"
                if single[0] == "handling"
                else "`def calling_batch(self, ctx: BatchContext)`"
            )
            raise BadOption(
                f"{kind.__qualname__}.{single[0]} wraps one message, and {handler} takes batches: write "
                f"{twin} in {kind.__qualname__}, too"
            )


def compile_batch_call(shape: Shape, decode: Decode, app: Publishing) -> Call:
    """Compile the call of a batch: it decodes the messages, and passes on those that can be read."""
    inner = signature.compile_call(shape, _as_it_is, app, BatchContext)

    def begun(batch: Batch) -> object:
        messages = batch.read(decode)
        return inner(cast("Delivery", _Read(messages)), batch) if messages else None

    def call(_: Delivery, run: Run) -> object:
        return begun(cast("Batch", run))

    async def awaited(_: Delivery, run: Run) -> object:
        called = begun(cast("Batch", run))
        return None if called is None else await cast("Awaitable[object]", called)

    return call if shape.threaded else awaited


def shown_batch(batching: Batching | None) -> dict[str, str]:
    """Return its declared options."""
    if batching is None:
        return {}
    return {"batch": str(batching.size), "linger": spell(timedelta(seconds=batching.linger))}


class _Read(NamedTuple):
    """Substitute for a delivery whose payload is decoded already."""

    payload: list[Any]
    content_type: str = ""


def _as_it_is(payload: Any, _: str) -> Any:
    return payload


def _item(shape: Shape, name: str, size: int) -> Any:
    """Return the type of one message in the payload's list."""
    payload = next((each for each in shape.arguments if each.source == "payload"), None)
    if payload is None:
        raise BadSignature(
            f"{name} has batch={size} and takes no payload: write `messages: list[YourMessage]` as its first parameter"
        )
    written = payload.annotation
    origin, parts = typing.get_origin(written), typing.get_args(written)
    if origin in (list, Sequence) and len(parts) == 1:
        return parts[0]
    is_class = written is not UNTYPED and origin is None and isinstance(written, type) and written not in (list, tuple)
    what = "has no type" if written is UNTYPED else f"is {_name(written)}"
    raise BadSignature(
        f"{name} has batch={size}, and its payload {payload.name!r} {what}: it is given a list, so write "
        f"`{payload.name}: list[{_name(written) if is_class else 'YourMessage'}]`"
    )


def _name(annotation: Any) -> str:
    return annotation.__qualname__ if isinstance(annotation, type) else str(annotation)


def _refuse_contexts(shape: Shape, kind: type, why: str) -> None:
    for taker, annotation in shape.plan.contexts:
        bare = alone(annotation)
        if isinstance(bare, type) and issubclass(bare, kind):
            raise BadSignature(f"{taker} asks for a {kind.__name__}, {why} there")


def lone(registration: Registration, payload: object) -> object:
    """Return the payload of one message; reject a list, since the worker makes the batches."""
    batching, item = registration.batching, registration.shape.annotation
    if batching is None or not isinstance(payload, list) or item is Any or typing.get_origin(item) or item is list:
        return payload
    raise Misuse(
        f"{registration.name} is sent a list: send it one message at a time, or several by app.publish_many([…]): "
        "the worker makes the batches"
    )
