"""``mainspring publish``: publish one message."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from cyclopts import Parameter

from mainspring.app.message.envelope import PublishOptions
from mainspring.cli.capture import DATABASE
from mainspring.cli.errors import Refused
from mainspring.cli.options import Validate, json_text, read_json
from mainspring.cli.output import plain, print_json, print_line, when
from mainspring.cli.target import UNNAMED, Json, Target
from mainspring.model.errors import NotRouted


async def publish(
    topic: str,
    payload: Annotated[str, json_text("--delay", "--at")] = "null",
    /,
    *,
    delay: Annotated[str | None, Parameter(metavar="DURATION")] = None,
    at: Annotated[datetime | None, Parameter(metavar="TIME")] = None,
    key: str | None = None,
    priority: Literal["urgent", "high", "normal", "low"] = "normal",
    header: Annotated[
        tuple[str, ...], Parameter(name=["--header", "-H"], metavar="NAME=VALUE", negative="", show_default=False)
    ] = (),
    correlation_id: str | None = None,
    message_id: UUID | None = None,
    expires: Annotated[str | None, Parameter(metavar="DURATION")] = None,
    validate: Validate = True,
    target: Target = UNNAMED,
    json: Json = False,
) -> int:
    """Publish a message.

    Parameters
    ----------
    topic
        The topic, such as orders.placed.
    payload
        The payload as JSON; `-` reads stdin.
    delay
        Deliver after this time, such as 15m.
    at
        Deliver at this time, such as 2030-01-31T09:00:00+01:00; a time without offset is this machine's.
    key
        The entity the message is about; `messages cancel --topic T --key K` finds it by this.
    priority
        One of four levels.
    header
        A header; repeatable.
    correlation_id
        The id of the operation this message belongs to.
    message_id
        The id; publishing it again stores nothing, and with another topic or payload is a conflict (exit code 1).
    expires
        Cancel it if it has not been delivered within this time.
    """
    value = read_json(payload)
    options: PublishOptions = {
        "delay": delay,
        "at": at.astimezone() if at is not None else None,
        "key": key,
        "priority": priority,
        "headers": _headers(header) if header else None,
        "correlation_id": correlation_id,
        "message_id": message_id,
        "expires": expires,
        "validate": validate,
    }
    routed = None if target.database else await _routed(target, topic, value, options)
    async with target.opened() as app:
        receipt = await app.publish(topic, value, **options)
        stored = await app.messages.get(receipt.id)
    refused = receipt.status == "conflict"
    if json:
        print_json(receipt if routed is None else {**plain(receipt), "database": routed})
        return int(refused)
    known = f": a message with this id exists on {stored.topic}" if refused and stored is not None else ""
    print_line(f"{receipt.status} {receipt.id}{'' if routed is None else f' in {routed}'}{known}")
    for each in stored.deliveries if stored is not None and receipt.status == "stored" else ():
        if each.state == "parked":
            print_line(f"parked: no group subscribes to {topic} yet; start its worker, or run `mainspring declare`")
        elif each.state == "scheduled":
            instant = f", at {_both(at)}" if at is not None else ""
            print_line(f"{each.group} receives it {when(each.due_at)}{instant}")
    return int(refused)


_PYTHON = ". Or pass database='acme'"


async def _routed(target: Target, topic: str, payload: Any, options: PublishOptions) -> str | None:
    """Let the fleet's route choose the database that this command is about, and return its name; None of an app."""
    fleet = target.fleet()
    if fleet is None:
        return None
    await target.names(fleet)
    router = fleet._router  # noqa: SLF001 - fleet.publish() does not return where to
    try:
        name = router.target("mainspring publish", None, None, topic, payload, options).member.name
    except NotRouted as error:
        text, _, _ = str(error).partition(": pass database=")
        raise Refused(
            f"{text.removesuffix(_PYTHON)}. Add --database NAME, or give the fleet a route= that names it"
        ) from error
    DATABASE.set(name)
    return name


def _both(at: datetime) -> str:
    """Return an instant in the zone it was given in, or this machine's, and in UTC."""
    local = at if at.tzinfo is not None else at.astimezone()
    return f"{local.isoformat(' ', 'seconds')} ({local.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC)"


def _headers(given: tuple[str, ...]) -> dict[str, str]:
    headers = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise Refused(f"--header {each!r} must be NAME=VALUE")
        headers[name] = value
    return headers
