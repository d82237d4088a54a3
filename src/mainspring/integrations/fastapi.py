"""FastAPI and Starlette: opening with the application's lifespan, publishing in a request's transaction."""

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
"""A lifespan function of FastAPI and Starlette. Neither is needed to write one."""


def lifespan(
    spring: Mainspring,
    *,
    worker: bool = False,
    groups: Collection[str] | None = None,
    then: Lifespan | None = None,
) -> Lifespan:
    """Return a lifespan for ``FastAPI(lifespan=…)``: open the app, and with ``worker`` consume all or these groups.

    ``then`` is the application's own lifespan: it starts when the app is open and ends before the app closes, and what
    it yields is the state of requests as usual. The app is also in ``application.state.mainspring``.
    """
    if not isinstance(spring, Mainspring):
        raise BadOption(
            f"lifespan(…) takes your app, not {type(spring).__name__}: write FastAPI(lifespan=lifespan(app))"
        )
    if groups is not None and not worker:
        raise BadOption("lifespan(groups=…) needs a worker: write lifespan(…, worker=True, groups=…)")

    @asynccontextmanager
    async def opened(application: Any) -> AsyncIterator[Any]:
        application.state.mainspring = spring
        inner = nullcontext() if then is None else then(application)
        async with spring.worker(groups=groups) if worker else spring, inner as state:
            yield state

    return opened


def within(call: Callable[P, R], session: Any) -> Callable[..., Callable[P, R]]:
    """Return a FastAPI dependency that provides ``call`` with the request's own session as its ``tx``.

    ``session`` is the dependency that provides a SQLAlchemy session, or anything else that ``tx=`` accepts; if routes
    declare it with options, pass the whole ``Depends(get_session, scope=…)``. The route gets the same session::

        Publish = Annotated[Callable[..., Awaitable[Receipt]], Depends(within(spring.publish, get_session))]

    For a blocking route, use ``spring.sync.publish`` in the same way.
    """
    try:
        from fastapi import Depends, params
    except ImportError as error:
        raise Misuse("within(…) needs FastAPI: pip install fastapi") from error
    dependency = session if isinstance(session, params.Depends) else Depends(session)

    def joined(tx: Any = dependency) -> Callable[P, R]:
        return partial(call, tx=tx)

    return joined
