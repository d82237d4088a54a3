"""``Fleet``: one app, its consumers and schedules, on any number of databases."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Collection, Coroutine, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack
from uuid import UUID

from mainspring.app.admin.bulk import Progress
from mainspring.app.blocking import AsyncOnly, Renamed
from mainspring.app.fleet.databases import Chosen, Database, Databases, Discover, Urls, check_chosen, select, unknown
from mainspring.app.fleet.destinations import Destinations
from mainspring.app.fleet.forward import forwarding
from mainspring.app.fleet.member import Member
from mainspring.app.fleet.metrics import FleetMetrics
from mainspring.app.fleet.mover import MoveProgress, Mover, OnMove
from mainspring.app.fleet.moves import Moves, read_moves
from mainspring.app.fleet.options import FleetWorkerOptions, read_worker_options
from mainspring.app.fleet.publisher import FleetPublisher
from mainspring.app.fleet.report import FleetHealth, FleetReport, fleet_health, of_member, over
from mainspring.app.fleet.router import Route, Router
from mainspring.app.fleet.survey import Survey
from mainspring.app.mainspring import Mainspring
from mainspring.app.message.envelope import MISSING, PublishOptions
from mainspring.app.names import check_name
from mainspring.app.observe import custom_checks
from mainspring.app.options import length, whole
from mainspring.app.place import LEADS
from mainspring.app.process import runner
from mainspring.app.publisher import REASON
from mainspring.model.errors import (
    BadOption,
    MainspringError,
    Misuse,
)
from mainspring.model.health import Health, HealthLimits
from mainspring.model.message import Cancelled, Receipt
from mainspring.model.move import Move
from mainspring.model.retention import Pruned, Retention
from mainspring.model.text import described
from mainspring.model.views import Declaration
from mainspring.timing.duration import Duration

if TYPE_CHECKING:
    from mainspring.app.fleet.worker import Attendances, FleetWorker

_logger = logging.getLogger("mainspring.fleet")
_SWEEP = 0.25
"""The share of the time without use after which a database closes, between two checks."""


class Fleet(Renamed, AsyncOnly):
    """One app on many databases, which come and go while it runs.

    ``databases`` is a mapping of names to URLs, or a function, plain or async, that returns one: it is asked every
    ``refresh`` while the fleet is open. ``route`` names the database of a message. Each database is an app of its own,
    ``fleet["acme"]``; it opens when it is used, and closes after ``idle`` without use, or when ``keep_open`` others
    were used since. One that cannot be used stops no other. ``home`` names the one that keeps what concerns all.
    """

    _instead: ClassVar[str] = "`with fleet:` cannot open databases without blocking: write `async with fleet:`"

    def __init__(
        self,
        app: Mainspring,
        databases: Urls | Discover,
        *,
        route: Route | None = None,
        home: str | None = None,
        on_move: OnMove | None = None,
        refresh: Duration = "30s",
        idle: Duration = "30s",
        keep_open: int = 30,
    ) -> None:
        if not isinstance(app, Mainspring):
            raise BadOption(f"Fleet(app, …) takes a Mainspring, not {app!r}: write Fleet(Mainspring('fleet://'), …)")
        self._app = app
        self._code = app._code  # noqa: SLF001 - its databases share the code of the app
        self._every = length(refresh, "refresh").total_seconds()
        self._idle = length(idle, "idle").total_seconds()
        self._most_kept = whole(keep_open, "keep_open", least=1, most=100_000)
        self._trimming: asyncio.Task[None] | None = None
        self._home_name = None if home is None else check_name(home, "home")
        self._databases = Databases(databases)
        self._moves = Moves()
        self._on_move = on_move
        self._members: dict[str, Member] = {}
        self._destinations = Destinations(lambda: self._members)
        self._own = (forwarding(self._code.options, self._destinations),)
        self._router = Router(self._code, route, lambda: self._members)
        self._publisher = FleetPublisher(self._router, self._member, self.refresh)
        self._attendances: list[Attendances] = []
        self._inside = 0
        self._services: list[asyncio.Task[None]] = []
        self._departing: set[asyncio.Task[None]] = set()
        self._refreshing: asyncio.Task[None] | None = None
        self._survey = Survey(self)
        self._metrics = FleetMetrics(self)
        app._leads = True  # noqa: SLF001
        own = app._own.place  # noqa: SLF001
        own.front.connection.advice = own.back.connection.advice = LEADS
        own.is_home = False
        self._follow()

    def __repr__(self) -> str:
        """For people: without secrets."""
        return f"<Fleet of {self._code.options.name!r}, {len(self._members)} databases>"

    # --- databases -----------------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Mainspring:
        """Return the app on this database. Raises UnknownDatabase, a KeyError."""
        return self._member(name).app

    def __contains__(self, name: object) -> bool:
        """Return whether it has a database of this name."""
        return name in self._members

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the databases."""
        return iter(tuple(self._members))

    def __len__(self) -> int:
        """Return how many databases there are."""
        return len(self._members)

    @property
    def databases(self) -> Mapping[str, Database]:
        """The databases as they are named now: their weights, and what the application keeps about them."""
        return {name: member.database for name, member in self._members.items()}

    async def refresh(self) -> None:
        """Ask for the databases now: new ones are served, those that are gone are drained and closed.

        Does not raise if the function fails: the databases stay as they were, which ``health`` reports.
        """
        if self._refreshing is None:
            # One at a time: of two answers, the later counts.
            self._refreshing = asyncio.create_task(self._refresh(), name="mainspring-fleet-refresh")
            self._refreshing.add_done_callback(self._refreshed)
        await asyncio.shield(self._refreshing)

    async def _refresh(self) -> None:
        await self._databases.refresh()
        self._follow()
        await self._moves.learn(self._members.get(self._home_name or ""))
        self._follow()

    def _refreshed(self, _task: asyncio.Task[None]) -> None:
        self._refreshing = None

    def _follow(self) -> None:
        """Bring the members in line with the databases that are named."""
        named = self._moves.routed(self._databases.addresses)
        gone = [each for name, each in self._members.items() if named.get(name) != each.address]
        for member in gone:
            del self._members[member.name]
        code, home, own = self._code, self._home_name, self._own
        added = ((name, at) for name, at in named.items() if name not in self._members)
        new = [Member(name, code, at, own, is_home=name == home) for name, at in added]
        # In the order in which they are named, so that listings are alike in every process.
        known = {**self._members, **{each.name: each for each in new}}
        self._members = {name: known[name] for name in named}
        for name, member in self._members.items():
            member.database = self._databases.named[name]
        if not self._inside:
            return
        for member in new:
            self._admit(member)
        for member in gone:
            _logger.info("%s is no database of the fleet any more: it is drained and closed", member.name)
            task = asyncio.create_task(self._part_with(member), name="mainspring-fleet-close")
            self._departing.add(task)
            task.add_done_callback(self._departing.discard)
        for each in self._attendances:
            each.follow()

    def _admit(self, member: Member) -> None:
        member.connection.on_open = self._trim_soon
        member.admit(admits=True)

    def _trim_soon(self) -> None:
        if self._trimming is None or self._trimming.done():
            self._trimming = asyncio.create_task(self._trim(), name="mainspring-fleet-trim")

    async def _trim(self) -> None:
        """Close those that were not used for the longest time, if too many are open."""
        kept = sorted(
            (each for each in self._members.values() if each.connection.is_kept),
            key=lambda each: each.connection.used_at,
        )
        for member in kept[: max(len(kept) - self._most_kept, 0)]:
            await self._rest(member, member.hang_up())

    async def _rest(self, member: Member, closing: Coroutine[Any, Any, None]) -> None:
        try:
            await closing
        except MainspringError as error:
            _logger.warning("%s: failed to close its database: %s", member.name, described(error))

    async def _part_with(self, member: Member) -> None:
        await asyncio.gather(*(each.let_go(member) for each in self._attendances))
        await self._rest(member, member.close())

    def _member(self, name: object) -> Member:
        member = self._members.get(name) if isinstance(name, str) else None
        if member is None:
            raise unknown(name, self._members)
        return member

    def _home(self, call: str) -> Member:
        """Return the database that keeps what concerns all. Raises Misuse if none is named."""
        if self._home_name is None:
            raise Misuse(f"{call} needs a database that keeps what concerns all: write Fleet(…, home='acme')")
        return self._member(self._home_name)

    def _check_home(self, call: str, *, shares: bool = False) -> None:
        """Raise Misuse if it needs a home and none is named, UnknownDatabase if it is gone, as far as that is known."""
        of_fleet = sorted(self._code.registry.of_fleet())
        is_known = self._home_name is None or (self._members and self._databases.trouble is None)
        if (shares or of_fleet) and is_known:
            why = "share=True" if shares else f"a schedule of scope='fleet', {of_fleet[0]!r},"
            self._home(f"{call} with {why}")

    def _chosen(self, chosen: Chosen) -> list[Member]:
        return [self._members[name] for name in select(tuple(self._members), chosen)]

    # --- publishing ----------------------------------------------------------------------------------------

    async def publish(
        self,
        message: object,
        payload: object = MISSING,
        *,
        database: str | None = None,
        **options: Unpack[PublishOptions],
    ) -> Receipt:
        """Publish as ``app.publish`` does: to ``database``, or to the one that ``route`` names.

        With ``tx`` it is part of that transaction, which decides if no ``database`` is named. If another one is, it is
        sent there after the commit, and delivered there exactly once by its id.
        """
        return await self._publisher.publish(message, payload, database, options)

    async def publish_many(
        self,
        messages: Iterable[object],
        *,
        database: str | None = None,
        spread: Duration | None = None,
        **options: Unpack[PublishOptions],
    ) -> list[Receipt]:
        """Publish as ``app.publish_many`` does, each message to its database; receipts in the order of the messages.

        All are routed before any is stored. Databases are stored to one after another: when one fails, the messages
        of those before it are stored.
        """
        return await self._publisher.publish_many(messages, database, spread, options)

    async def cancel(
        self,
        which: UUID | str | Receipt | type,
        *,
        key: str | None = None,
        reason: str = REASON,
        database: str | None = None,
        tx: Any = None,
    ) -> Cancelled:
        """Cancel as ``app.cancel`` does, in ``database``, or where ``route`` leads for a topic and ``key``."""
        return await self._publisher.cancel(which, key, reason, database, tx)

    # --- opening and working -------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Ask for the databases, and keep asking. None is opened before it is used."""
        self._inside += 1
        if self._inside == 1:
            for member in self._members.values():
                self._admit(member)
            try:
                await self.refresh()
            except BaseException:
                self._inside -= 1
                raise
            services = {"refresh": self._keep_refreshing(), "sweep": self._keep_sweeping()}
            self._metrics.register()
            self._services = [
                asyncio.create_task(work, name=f"mainspring-fleet-{name}") for name, work in services.items()
            ]
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close all databases behind the last one inside."""
        self._inside -= 1
        if self._inside:
            return
        await self._survey.aclose()
        for task in self._services:
            task.cancel()
        if ending := [*self._services, *([] if self._trimming is None else [self._trimming])]:
            await asyncio.wait(ending)
        self._services, self._trimming = [], None  # it may be opened again, on another loop
        if self._departing:
            await asyncio.wait(self._departing)
        await self._destinations.close()
        await asyncio.gather(*(each.close() for each in self._members.values()))

    async def _keep_refreshing(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            await self.refresh()

    async def _keep_sweeping(self) -> None:
        while True:
            await asyncio.sleep(max(self._idle * _SWEEP, 0.1))
            for member in tuple(self._members.values()):
                await self._rest(member, member.rest(self._idle))

    @asynccontextmanager
    async def worker(
        self, *, databases: Chosen = None, **options: Unpack[FleetWorkerOptions]
    ) -> AsyncIterator[FleetWorker]:
        """Consume from all databases, or from those that a pattern or a list chooses, until the block ends.

        Each is looked at, more seldom while it is idle but at least every ``longest_pause``; a publish through this
        fleet is noticed at once. Where something is due a worker runs, until it had nothing to do for ``idle``: at
        most ``most_open`` at a time, in turns. ``groups`` and ``concurrency`` are those of each worker.
        """
        from mainspring.app.fleet.share import Share
        from mainspring.app.fleet.worker import Attendances, FleetWorker

        check_chosen(databases)
        read = read_worker_options(options, self._served)
        runner.warn_unnamed(self._code.options, "postgresql")
        async with self, self._metrics.observed():
            self._check_home("fleet.worker()", shares=read.share)
            share = Share(self._code, self._home, databases, read.served) if read.share else None
            attendances = Attendances(read, databases, lambda: [*self._members.values()], share)
            worker = FleetWorker(attendances)
            self._attendances.append(attendances)
            attendances.follow()
            try:
                yield worker
            finally:
                try:
                    await worker.stop()
                except asyncio.CancelledError:
                    await worker.stop_now()
                    raise
                finally:
                    self._attendances.remove(attendances)

    def run(self, *, databases: Chosen = None, **options: Unpack[FleetWorkerOptions]) -> None:
        """Work until SIGTERM or SIGINT: the first lets handlers finish, the second does not. Blocks."""
        runner.run(self.worker(databases=databases, **options))

    def _served(self, groups: Collection[str] | None) -> tuple[str, ...]:
        from mainspring.app.broker.intake import Intake

        self._code.catalogue.check()
        chosen = self._code.consumers.chosen(groups)
        if not chosen:
            raise Misuse("no consumer is registered: write @app.consumer(…), or app.include() the module that does")
        for each in chosen:
            if isinstance(each, Intake):
                raise Misuse(
                    f"{each.caller}: a fleet does not know for which database a message from "
                    f"{each.reader.broker.source} is: read it with an app of its own, and publish what its handler "
                    "receives by fleet.publish(…)"
                )
        return tuple(each.group for each in chosen)

    # --- operating -----------------------------------------------------------------------------------------

    async def migrate(self, *, databases: Chosen = None) -> FleetReport[list[str]]:
        """Bring the tables of all, or of those chosen, up to date. Opens by itself; never stops at a failure."""
        return await self._over(databases, Mainspring.migrate)

    async def declare(self, *, databases: Chosen = None) -> FleetReport[list[Declaration]]:
        """Make groups, subscriptions and schedules known in all, or in those chosen. Opens by itself."""
        self._check_home("fleet.declare()")
        return await self._over(databases, Mainspring.declare)

    async def prune(
        self,
        retention: Retention | None = None,
        *,
        databases: Chosen = None,
        topic: str | None = None,
        by: str = "app",
        progress: Progress | None = None,
    ) -> FleetReport[Pruned]:
        """Remove what is older than the retention says [the app's], from all or those chosen. Opens by itself."""

        async def pruned(app: Mainspring) -> Pruned:
            async with app:
                return await app.prune(retention, topic=topic, by=by, progress=progress)

        return await self._over(databases, pruned)

    async def health(self, limits: HealthLimits | None = None, *, databases: Chosen = None) -> FleetHealth:
        """Whether all is well: of each database, of what names them, and the checks of your own, once. Opens by itself.

        Degraded if some database is not healthy, unhealthy if all are unhealthy.
        """
        begun = time.monotonic()
        own = self._app._own.place.custom_checks  # noqa: SLF001 - registered by app.health.check

        async def healthy(app: Mainspring) -> Health:
            return of_member(await app.health(limits or own.limits))

        report = await self._over(databases, healthy)
        for error in report.errors.values():
            raise error  # health of an app does not raise for what is broken
        checks = await custom_checks.run(own.chosen(None))
        trouble, rejected = self._databases.trouble, self._databases.rejected
        return fleet_health(report.results, [*checks, *self._moves.checks()], trouble, rejected, begun)

    async def move(self, name: str, *, to: str, drain: Duration = "30s", progress: MoveProgress | None = None) -> Move:
        """Move a database to the empty one that is called ``to``, or go on with its move. Opens by itself.

        Workers finish what they have in hand, for ``drain``; then both refuse writes until all is copied and served.
        """
        async with self:
            return await Mover(self, "fleet.move()", progress).move(name, to, length(drain, "drain").total_seconds())

    async def undo_move(self, name: str, *, progress: MoveProgress | None = None) -> Move:
        """Serve a database where it was again, and empty the target. Raises Misuse once it is served there."""
        async with self:
            return await Mover(self, "fleet.undo_move()", progress).undo(name)

    async def moves(self) -> list[Move]:
        """Return every move that was begun, the first one first."""
        if not self._inside:
            await self.refresh()
        return list(await read_moves(self._home("fleet.moves()")))

    async def metrics(self) -> str:
        """The metrics of all databases for Prometheus, each with the label ``database``, and of the fleet itself."""
        return await self._metrics.text()

    async def _over(self, databases: Chosen, work: Any) -> FleetReport[Any]:
        if not self._inside:
            await self.refresh()
        return await over(self._chosen(databases), work)
