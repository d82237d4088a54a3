"""The loop in the background of ``app.sync``: what one caller's code raises does not end it for the others."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mainspring import Mainspring, Middleware, Outgoing
from tests.raising.explosives import TEXT, Panic


class Refusing(Middleware):
    """Raises where it is told to."""

    def __init__(self) -> None:
        self.raised: BaseException | None = None

    @contextmanager
    def publishing(self, message: Outgoing) -> Iterator[Outgoing]:
        if self.raised is not None:
            raise self.raised
        yield message


@pytest.mark.parametrize("raised", [SystemExit(TEXT), KeyboardInterrupt(TEXT), GeneratorExit(TEXT), Panic(TEXT)])
def test_what_middleware_raises_reaches_its_caller_and_ends_no_other_call(
    tmp_path: Path, raised: BaseException
) -> None:
    refusing = Refusing()
    app = Mainspring(f"sqlite:///{tmp_path}/work.db", name="work", middleware=[refusing])
    app.sync.publish("work", 1)

    refusing.raised = raised
    with pytest.raises(type(raised)):
        app.sync.publish("work", 2)
    refusing.raised = None
    app.sync.publish("work", 3)

    assert len(app.sync.messages.list("parked")) == 2
    app.sync.close()
