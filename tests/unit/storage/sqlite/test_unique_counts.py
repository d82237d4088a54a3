"""How many statements uniqueness takes on SQLite, and that the lock is taken before anything is read."""

from collections.abc import Sequence
from uuid import UUID, uuid4

from mainspring.model.message import Draft, Receipt, UniqueKey
from mainspring.storage.operation import Nowhere
from mainspring.storage.script import Row
from mainspring.storage.sqlite.dialect import Dialect
from mainspring.storage.sqlite.mailbox import SqliteMailbox
from tests.unit.storage.sqlite.stand_in import NOON, Counting, drive

MAILBOX = SqliteMailbox(Dialect("mainspring", lambda: NOON), Nowhere())
EARLIER = UUID(int=7)
NOTHING = (0, None, None, 0, 0, 0, None)
WAITING = (0, EARLIER.bytes, NOON, 0, 1, 0, 1)
LOOKED = ["clock_mark", "clock_read", "unique_look"]
STORED = ["publish_one", "publish_delivery", "unique_enter"]


def bill(likeness: UniqueKey, looked: Row, **answers: Sequence[Row]) -> tuple[Draft, Receipt, list[str]]:
    draft = Draft(uuid4(), "orders.placed", b"{}", group="mailer")
    asked: dict[str, Sequence[Row]] = {
        "clock_read": [(NOON,)],
        "publish_one": [(NOON, NOON, 1)],
        "unique_look": [looked],
        **dict.fromkeys(("clock_mark", "publish_delivery", "unique_extend", "unique_enter"), ()),
        **dict.fromkeys(("unique_free", "cancel_parked_id", "delivery_cancelled"), ()),
        **dict.fromkeys(("delivery_delete", "ended_add"), ()),
    }
    connection = Counting({**asked, **answers})
    receipt = drive(connection, MAILBOX.publish_unique.script(draft, likeness))
    return draft, receipt, connection.asked


def test_what_is_stored_is_two_statements_more_than_a_plain_publish() -> None:
    draft, receipt, asked = bill(UniqueKey(b"1"), NOTHING)

    assert receipt == Receipt(draft.id, "stored")
    assert asked == [*LOOKED, *STORED]


def test_a_duplicate_writes_no_message() -> None:
    _, receipt, asked = bill(UniqueKey(b"1"), WAITING)

    assert receipt == Receipt(EARLIER, "duplicate")
    assert asked == [*LOOKED, "unique_extend"]


def test_a_call_that_is_sent_again_writes_nothing() -> None:
    draft, receipt, asked = bill(UniqueKey(b"1"), (1, *WAITING[1:]), publish_known=())

    assert receipt == Receipt(draft.id, "stored")
    assert asked == [*LOOKED, "publish_known"]


def test_what_is_replaced_is_cancelled_like_anything_else() -> None:
    free = [(1, EARLIER.bytes, 0, None)]

    draft, receipt, asked = bill(UniqueKey(b"1", "pending", "last"), WAITING, unique_free=free)

    assert receipt == Receipt(draft.id, "replaced")
    assert asked == [
        *(*LOOKED, *STORED, "unique_free", "cancel_parked_id"),
        *("delivery_cancelled", "delivery_delete", "ended_add"),
    ]
