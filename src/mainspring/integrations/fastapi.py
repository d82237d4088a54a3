"""FastAPI and Starlette: opening with the application's lifespan, publishing in the transaction of a request."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import Any, ParamSpec, TypeVar

from mainspring.app.mainspring import Mainspring
from mainspring.model.errors import BadOption, Misuse

P = ParamSpec("P")
R = TypeVar("R")
Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]
"""What FastAPI and Starlette call a lifespan: a function of the application. Neither is needed to write one."""


def lifespan(
    spring: Mainspring,
    *,
    worker: bool = False,
    groups: Collection[str] | None = None,
    then: Lifespan | None = None,
) -> Lifespan:
    """For ``FastAPI(lifespan=…)``: open while the application runs, with ``worker`` also consume, all or these groups.

    ``then`` is a lifespan of the application's own: it begins when all is open, ends before it closes, and what it
    yields is the state of requests as ever. The app is also in ``application.state.mainspring``.
    """
    if groups is not None and not worker:
        raise BadOption("lifespan(groups=…) says what to consume: write lifespan(…, worker=True, groups=…)")

    @asynccontextmanager
    async def opened(application: Any) -> AsyncIterator[Any]:
        application.state.mainspring = spring
        inner = nullcontext() if then is None else then(application)
        async with spring.worker(groups=groups) if worker else spring, inner as state:
            yield state

    return opened


def within(call: Callable[P, R], session: Any) -> Callable[..., Callable[P, R]]:
    """A dependency of FastAPI's that gives ``call`` with the request's own session as its ``tx``.

    ``session`` is the dependency that provides a SQLAlchemy session, or whatever else ``tx=`` takes; where the routes
    ask for it with options, it is the whole ``Depends(get_session, scope=…)``. The route gets the same session::

        Publish = Annotated[Callable[..., Awaitable[Receipt]], Depends(within(spring.publish, get_session))]

    A route that blocks is given ``spring.sync.publish`` in the same way.
    """
    try:
        from fastapi import Depends, params
    except ImportError as error:
        raise Misuse("within(…) is for FastAPI, which is not installed: pip install fastapi") from error
    asked = session if isinstance(session, params.Depends) else Depends(session)

    def joined(tx: Any = asked) -> Callable[P, R]:
        return partial(call, tx=tx)

    return joined
