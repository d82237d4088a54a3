"""What ``app.join`` and ``send(then=…)`` refuse, and what they make of the rest."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any
from uuid import UUID

import pytest

from mainspring import Consumer, Context, JoinOutcome, Mainspring, Testing, errors
from tests.unit.app.stage import MESSAGE, Desk, delivery, running

OTHER = Mainspring("memory://")
app = Mainspring("memory://", name="photos")


@app.message("photos.taken")
@dataclass
class Photo:
    id: int


@app.consumer()
async def resize(photo: Photo) -> None: ...


@app.consumer("albums.new")
def album(ctx: Context) -> None: ...


@app.consumer("reports.wanted")
def report(what: str) -> None: ...


@app.consumer("mail", group="mailing")
class Mail(Consumer[str]):
    def consume(self, text: str) -> None: ...


@OTHER.consumer("elsewhere")
def elsewhere() -> None: ...


def unregistered() -> None: ...


@pytest.fixture
def kit() -> Iterator[Testing]:
    with app.testing() as kit:
        yield kit


@pytest.mark.parametrize(
    ("members", "options", "message"),
    [
        (
            [],
            {"then": album},
            r"app\.join\(…\) has no members: give at least one, as in app\.join\(\[",
        ),
        ([(resize, Photo(1))], {}, r"has neither then= nor failed=: nothing would follow"),
        ("photos.taken", {"then": album}, r"takes a list of \(consumer, payload\), not 'photos\.taken'"),
        (3, {"then": album}, r"takes a list of \(consumer, payload\), not 3"),
        ({resize: 1}, {"then": album}, r"takes a list of \(consumer, payload\), not \{"),
        (
            [("photos.taken", 1)],
            {"then": album},
            r"a member 'photos\.taken' is no consumer: a topic may have any number of groups\. Pass the function",
        ),
        ([(unregistered, 1)], {"then": album}, r"unregistered at .* is no consumer\. Pass the function or class under"),
        ([(elsewhere, None)], {"then": album}, r"a member .*elsewhere is a consumer of another app"),
        ([(resize, Photo(1))], {"then": "albums.new"}, r"then='albums\.new' is no consumer: a topic may have"),
        ([(resize, Photo(1))], {"failed": elsewhere}, r"failed=.*elsewhere is a consumer of another app"),
        (
            [(resize, Photo(1))],
            {"then": report},
            r"then=report takes a payload, and none was given: write \(report, ",
        ),
        ([resize], {"then": album}, r"a member resize takes a payload, and none was given"),
        ([(resize, Photo(1))], {"then": album, "delay": "5m"}, r"app\.join\(…\) has no option 'delay'"),
        ([(resize, Photo(1))], {"then": album, "key": ""}, "key must be 1 to 200 characters"),
        (repeat((resize, Photo(1))), {"then": album}, r"has more than 10,000 members, which are stored in one transac"),
    ],
)
async def test_a_mistake_is_told_before_anything_is_stored(
    kit: Testing, members: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(errors.BadOption, match=message):
        await app.join(members, **options)
    with pytest.raises(errors.BadOption, match=message.replace(r"app\.join", r"app(\.sync)?\.join")):
        await app.join(members, tx="stood in for by the kit", **options)

    assert kit.published() == []


async def test_what_follows_a_topic_is_refused_naming_the_call_to_make(kit: Testing) -> None:
    with pytest.raises(
        errors.BadOption, match=r"publish\(…\) has no option 'then': .* `consumer\.send\(payload, then=…"
    ):
        await app.publish("photos.taken", {"id": 1}, then=album)  # type: ignore[call-arg]
    with pytest.raises(errors.BadOption, match=r"`app\.join\(\[\(consumer, payload\), …\], failed=…\)`"):
        await app.publish("photos.taken", {"id": 1}, failed=album)  # type: ignore[call-arg]


async def test_members_share_a_correlation_and_what_follows_has_it_too(kit: Testing) -> None:
    joined = await app.join([(resize, Photo(1)), (Mail, "hello"), album], then=(report, "done"), key="album:7")
    await kit.drain()

    members, (last,) = kit.published()[:3], kit.published("reports.wanted")
    assert tuple(each.id for each in members) == joined.members
    assert [(each.group, each.payload, each.key) for each in members] == [
        ("resize", Photo(1), "album:7"),
        ("mailing", "hello", "album:7"),
        ("album", None, "album:7"),
    ]
    assert {each.correlation_id for each in (*members, last)} == {str(joined.id)}
    assert (last.id, last.payload, last.key, last.causation_id) == (joined.follows, "done", "album:7", None)


async def test_a_correlation_that_is_given_is_that_of_all(kit: Testing) -> None:
    await app.join([(resize, Photo(1))], then=album, correlation_id=UUID(int=7))
    await kit.drain()

    assert {each.correlation_id for each in kit.published()} == {str(UUID(int=7))}


async def test_what_follows_one_message_has_it_for_its_cause(kit: Testing) -> None:
    sent = await resize.send(Photo(1), then=album, failed=(report, "bad"), key="photo:1", priority="high")
    await kit.drain()

    first, last = kit.published()
    assert (first.id, first.correlation_id) == (sent.id, None)
    assert (last.group, last.causation_id, last.correlation_id) == ("album", sent.id, str(sent.id))
    assert (last.key, last.priority) == ("photo:1", first.priority)


async def test_none_is_the_same_as_leaving_it_out(kit: Testing) -> None:
    await resize.send(Photo(1), then=None, failed=None)

    (sent,) = kit.published()
    assert sent.headers == {}


async def test_a_message_that_was_there_already_has_no_successor(kit: Testing) -> None:
    first = await resize.send(Photo(1), message_id=MESSAGE)
    again = await resize.send(Photo(1), message_id=MESSAGE, then=album)
    await kit.drain()

    assert (first.status, again.status) == ("stored", "duplicate")
    assert [ran.group for ran in kit.runs] == ["resize"]


async def test_a_class_sends_with_what_follows(kit: Testing) -> None:
    await Mail.send("hello", then=album)
    await kit.drain()

    assert [ran.group for ran in kit.runs] == ["mailing", "album"]


async def test_joining_from_a_handler_carries_the_correlation_and_names_the_cause() -> None:
    desk, held = Desk(), delivery(correlation_id="cart-7")
    ctx = Context(desk, held, running(held))

    await ctx.join([(resize, Photo(1))], then=album)
    ctx.sync.join([(resize, Photo(2))], then=album, correlation_id="other")

    assert desk.joined == [
        ([(resize, Photo(1))], {"then": album, "correlation_id": "cart-7"}, MESSAGE),
        ([(resize, Photo(2))], {"then": album, "correlation_id": "other"}, MESSAGE),
    ]


def test_a_context_shows_what_became_of_the_members() -> None:
    told = {"mainspring-join": str(MESSAGE), "mainspring-join-done": "3", "mainspring-join-failed": "1"}
    held, plain, odd = delivery(headers=told), delivery(), delivery(headers={**told, "mainspring-join-done": "many"})

    assert Context(Desk(), held, running(held)).joined == JoinOutcome(MESSAGE, done=3, failed=1)
    assert Context(Desk(), plain, running(plain)).joined is None
    assert Context(Desk(), odd, running(odd)).joined is None
