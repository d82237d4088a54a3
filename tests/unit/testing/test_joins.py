"""Joins in a test: members and what follows them run by the same ``drain``."""

from typing import Any

import pytest

from mainspring import Context, JoinOutcome, Mainspring, Testing, intervals


class Photos:
    """Consumers of which the first fails above nine, and what the others were told."""

    def __init__(self, app: Mainspring) -> None:
        self.told: list[tuple[str, JoinOutcome | None]] = []

        @app.consumer("resize", retry=intervals("1m"))
        async def resize(number: int) -> None:
            if number > 9:
                raise ValueError(number)

        @app.consumer("album")
        async def album(ctx: Context) -> None:
            self.told.append(("album", ctx.joined))

        @app.consumer("sorry")
        def sorry(ctx: Context) -> None:
            self.told.append(("sorry", ctx.joined))

        self.resize, self.album, self.sorry = resize, album, sorry


@pytest.fixture
def photos(app: Mainspring) -> Photos:
    return Photos(app)


async def test_what_follows_runs_when_the_members_have(app: Mainspring, kit: Testing, photos: Photos) -> None:
    joined = await app.join([(photos.resize, number) for number in range(3)], then=photos.album)

    runs = await kit.drain()

    assert [ran.group for ran in runs] == ["resize"] * 3 + ["album"]
    assert photos.told == [("album", JoinOutcome(joined.id, done=3, failed=0))]
    assert [each.group for each in kit.published()] == ["resize"] * 3 + ["album"]


async def test_what_fails_for_good_is_waited_for(app: Mainspring, kit: Testing, photos: Photos) -> None:
    members = [(photos.resize, 1), (photos.resize, 10)]
    joined = await app.join(members, then=photos.album, failed=photos.sorry)

    await kit.drain()
    assert photos.told == []
    with kit.expect_dead(photos.resize, error=ValueError):
        await kit.advance("1m")

    assert photos.told == [("sorry", JoinOutcome(joined.id, done=1, failed=1))]


def test_blocking_code_joins_alike(app: Mainspring, kit: Testing, photos: Photos) -> None:
    joined = app.sync.join([(photos.resize, 1)], then=photos.album)
    app.sync.join(iter([(photos.resize, 2)]), then=photos.album, tx="whatever: the kit stands in")
    sent = photos.resize.sync.send(3, then=photos.album)

    kit.sync.drain()

    assert len(joined.members) == 1
    assert [told for told, _ in photos.told] == ["album"] * 3
    assert kit.published("album")[-1].causation_id in (sent.id, None)


async def test_a_handler_joins_on_behalf_of_its_message(app: Mainspring, kit: Testing, photos: Photos) -> None:
    @app.consumer("upload")
    async def upload(numbers: list[int], ctx: Context) -> None:
        await ctx.join([(photos.resize, number) for number in numbers], then=photos.album)

    @app.consumer("upload.plainly")
    def plainly(numbers: list[int], ctx: Context) -> None:
        ctx.sync.join([(photos.resize, number) for number in numbers], then=photos.album)

    uploaded = await app.publish("upload", [1, 2])
    plain = await app.publish("upload.plainly", [3])
    await kit.drain()

    caused: Any = {(each.group, each.causation_id, each.correlation_id) for each in kit.published() if each.group}
    assert caused == {(group, cause.id, str(cause.id)) for group in ("resize", "album") for cause in (uploaded, plain)}


async def test_a_cancelled_member_has_ended(app: Mainspring, kit: Testing, photos: Photos) -> None:
    joined = await app.join([(photos.resize, 1), (photos.resize, 2)], then=photos.album, failed=photos.sorry)

    await app.cancel(joined.members[0])
    await kit.drain()

    assert photos.told == [("sorry", JoinOutcome(joined.id, done=1, failed=1))]


async def test_chains_are_as_long_as_handlers_make_them(app: Mainspring, kit: Testing, photos: Photos) -> None:
    @app.consumer("step")
    async def step(number: int) -> None:
        if number < 5:
            await step.send(number + 1, then=photos.album)

    await step.send(1, then=photos.album)
    runs = await kit.drain()

    assert [ran.group for ran in runs].count("step") == 5
    assert len(photos.told) == 5
