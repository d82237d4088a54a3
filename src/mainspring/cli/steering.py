"""Operators' actions on schedules: pause, resume, trigger, delete, freeze and thaw."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from mainspring.app.envelope import MISSING
from mainspring.app.mainspring import Mainspring
from mainspring.cli.confirming import confirmed
from mainspring.cli.dead import Yes
from mainspring.cli.failures import Refused
from mainspring.cli.finding import Name, followed, found, values
from mainspring.cli.instants import shortly, zone_of
from mainspring.cli.publish import JsonText, read_json
from mainspring.cli.tables import print_json, say
from mainspring.cli.target import UNNAMED, Json, Target, operator

Reason = Annotated[str, Parameter(show_default=False, help="Shown with the schedule and in the audit log.")]
Everywhere = Annotated[
    bool, Parameter(negative="", show_default=False, help="The schedules of every app on this database.")
]


async def pause(name: Name, /, *, reason: Reason = "", target: Target = UNNAMED, json: Json = False) -> int:
    """Stop a schedule until it is resumed; restarts and deploys do not resume it. Current runs continue."""
    async with target.opened() as opened:
        before = await found(opened, name)
        view = await opened.schedules.pause(name, reason=reason, by=operator())
    if json:
        print_json(values(view))
    elif before.paused_at is not None:
        say(f"{name} is already paused; nothing changed")
    elif view.paused_at is None:
        say(f"{name} is a one-time schedule that has fired; there is nothing to pause")
    else:
        say(f"{name} is paused. To resume: mainspring schedules resume {name}{target.typed}")
    return 0


async def resume(name: Name, /, *, target: Target = UNNAMED, json: Json = False) -> int:
    """Resume a schedule from its next future time; times during the pause are skipped."""
    async with target.opened() as opened:
        before = await followed(opened, name)
        view = await opened.schedules.resume(name, by=operator())
    if json:
        print_json(values(view))
    else:
        due = "" if view.next_at is None else f", due {shortly(view.next_at.astimezone(zone_of(view.timezone)))}"
        say(f"{name} is resumed{due}" if before.paused_at else f"{name} was not paused; nothing changed")
    return 0


async def trigger(
    name: Name,
    /,
    *,
    payload: Annotated[str | None, JsonText] = None,
    target: Target = UNNAMED,
    json: Json = False,
) -> int:
    """Run a schedule now; its next time does not change.

    Parameters
    ----------
    payload
        Deliver this JSON instead of the schedule's payload; `-` reads stdin.
    """
    value = MISSING if payload is None else read_json(payload)
    async with target.opened() as opened:
        await followed(opened, name)
        receipt = await opened.schedules.trigger(name, payload=value, by=operator())
    if json:
        print_json(receipt)
    else:
        say(f"{name} is triggered. To see its progress: mainspring messages show {receipt.id}{target.typed}")
    return 0


async def delete(name: Name, /, *, yes: Yes = False, target: Target = UNNAMED, json: Json = False) -> int:
    """Delete a schedule that was created at run time, or whose code is gone; its runs stay."""
    async with target.opened() as opened:
        view = await found(opened, name)
        # A schedule that code defines is rejected, so no confirmation is needed.
        deletable = view.origin == "api" or view.retired_at is not None
        if deletable and not confirmed(f"Delete the schedule {name}?", yes=yes):
            say("Nothing deleted.")
            return 1
        await opened.schedules.delete(name, by=operator())
    if json:
        print_json({"schedule": name, "deleted": True})
    else:
        say(f"{name} is deleted; its runs stay: mainspring schedules runs {name}{target.typed}")
    return 0


async def freeze(
    *, everywhere: Everywhere = False, reason: Reason = "", target: Target = UNNAMED, json: Json = False
) -> int:
    """Stop all schedules of an app until they are thawed."""
    _check_whose(target, everywhere=everywhere)
    async with target.opened() as opened:
        await opened.schedules.freeze(reason=reason, everywhere=everywhere, by=operator())
    if json:
        print_json({"app": None if everywhere else opened.options.name, "frozen": True})
    else:
        more = " --everywhere" if everywhere else ""
        whose = _whose(opened, everywhere=everywhere)
        say(f"{whose} are frozen. To thaw them: mainspring schedules thaw{more}{target.typed}")
    return 0


async def thaw(*, everywhere: Everywhere = False, target: Target = UNNAMED, json: Json = False) -> int:
    """End a freeze; each schedule's misfire policy decides on times missed since."""
    _check_whose(target, everywhere=everywhere)
    async with target.opened() as opened:
        thawed = await opened.schedules.thaw(everywhere=everywhere, by=operator())
        views = await opened.schedules.list(app=None if everywhere else opened.options.name)
    still = sorted({each.app for each in views if each.frozen_at is not None})
    if json:
        print_json({"app": None if everywhere else opened.options.name, "thawed": thawed, "still_frozen": still})
        return 0
    whose = _whose(opened, everywhere=everywhere)
    say(f"{whose} are thawed" if thawed else f"{whose} were not frozen; nothing changed")
    if still and everywhere:
        say(f"Still frozen individually: {', '.join(still)}. To thaw one: mainspring schedules thaw --app MODULE:APP")
    elif still:
        say("The schedules of every app are still frozen: mainspring schedules thaw --everywhere" + target.typed)
    return 0


def _check_whose(target: Target, *, everywhere: bool) -> None:
    if target.app is None and not everywhere:
        raise Refused("no schedules selected: give --app MODULE:APP, or --everywhere for every app on this database")


def _whose(opened: Mainspring, *, everywhere: bool) -> str:
    return "The schedules of every app" if everywhere else f"The schedules of {opened.options.name}"
