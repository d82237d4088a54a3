"""An app whose database does not exist: what is tested here must not ask for it."""

from collections.abc import Iterator

import pytest

from mainspring import Mainspring, Testing


@pytest.fixture
def app() -> Mainspring:
    return Mainspring("postgresql://nobody@127.0.0.1:1/nowhere", name="shop")


@pytest.fixture
def kit(app: Mainspring) -> Iterator[Testing]:
    with app.testing() as kit:
        yield kit
