"""A URL that is a function: asked each time the app is opened."""

from pathlib import Path

import pytest

from mainspring import Mainspring
from mainspring.model.errors import BadOption


async def _stored(file: Path) -> int:
    async with Mainspring(f"sqlite:///{file}") as app:
        return len(await app.messages.list("parked"))


async def test_every_opening_is_where_the_function_says(tmp_path: Path) -> None:
    files = [tmp_path / "first.db", tmp_path / "second.db"]
    place = [f"sqlite:///{files[0]}"]
    app = Mainspring(lambda: place[0])

    async with app:
        await app.publish("orders.placed", 1)
        place[0] = f"sqlite:///{files[1]}"
        await app.publish("orders.placed", 2)  # an open app stays where it is
    async with app:
        await app.publish("orders.placed", 3)
    place[0] = f"sqlite:///{files[0]}"
    async with app:
        await app.publish("orders.placed", 4)

    assert [await _stored(file) for file in files] == [3, 1]


async def test_a_database_cannot_become_one_of_another_kind(tmp_path: Path) -> None:
    place = [f"sqlite:///{tmp_path / 'shop.db'}"]
    app = Mainspring(lambda: place[0])
    place[0] = "memory://"

    with pytest.raises(BadOption, match="the database was sqlite and is now memory"):
        async with app:
            pass


def test_blocking_calls_follow_it_when_they_open_anew(tmp_path: Path) -> None:
    place = [f"sqlite:///{tmp_path / 'first.db'}"]
    app = Mainspring(lambda: place[0])

    app.sync.publish("orders.placed", 1)
    place[0] = f"sqlite:///{tmp_path / 'second.db'}"
    app.sync.close()
    found = app.sync.messages.list("parked")
    app.sync.close()

    assert found == []
