"""Who may read the file: this user alone, where we have made it; whom its owner lets, where it was there."""

import errno
import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mainspring import errors
from mainspring.model.symptom import Tolerances
from mainspring.storage.sqlite import SqliteStorage
from tests.contract.acting import draft


@pytest.fixture(autouse=True)
def generous() -> Iterator[None]:
    """A mask under which everything is open to all."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {each.name: stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()}


@pytest.mark.parametrize("linked", [False, True])
async def test_what_we_make_is_for_this_user_alone(tmp_path: Path, linked: bool) -> None:
    path = tmp_path / "shop.db"
    if linked:
        (tmp_path / "elsewhere").mkdir()
        path.symlink_to(tmp_path / "elsewhere" / "shop.db")
    storage = SqliteStorage(str(path))
    await storage.open()
    await storage.schema.migrate()
    await storage.mailbox.publish([draft(group="mailer")])

    there = modes(tmp_path / "elsewhere" if linked else tmp_path)
    await storage.close()

    assert there == {"shop.db": 0o600, "shop.db-wal": 0o600, "shop.db-shm": 0o600}


def refusing(*_: object) -> None:
    raise PermissionError(errno.EPERM, "this file system has none")


async def test_what_we_make_where_there_are_no_links_is_for_this_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "hardlink_to", refusing)
    storage = SqliteStorage(str(tmp_path / "shop.db"))
    await storage.open()
    await storage.schema.migrate()

    there = modes(tmp_path)
    await storage.close()

    assert there == {"shop.db": 0o600, "shop.db-wal": 0o600, "shop.db-shm": 0o600}


async def test_what_cannot_be_made_for_this_user_alone_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Path, "hardlink_to", refusing)
    monkeypatch.setattr(os, "mknod", refusing)
    storage = SqliteStorage(str(tmp_path / "shop.db"))
    await storage.open()
    await storage.schema.migrate()
    await storage.close()

    (said,) = [each for each in caplog.messages if "cannot be made for this user alone" in each]
    assert said.endswith(f"chmod o-rwx {tmp_path / 'shop.db'}*")


async def test_a_link_that_leads_back_to_itself_is_named(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    path.symlink_to(path)
    storage = SqliteStorage(str(path))

    with pytest.raises(errors.StorageError, match=r"shop\.db' (is a symbolic link that leads back|cannot be opened)"):
        await storage.open()
    await storage.close()


async def test_a_file_that_was_there_keeps_its_mode_and_the_doctor_names_it(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    path.touch(0o664)
    storage = SqliteStorage(str(path))
    await storage.open()
    await storage.schema.migrate()

    examined = await storage.schema.examine(Tolerances(), lambda: datetime.now(UTC))
    path.chmod(0o660)
    again = await storage.schema.examine(Tolerances(), lambda: datetime.now(UTC))
    await storage.close()

    (found,) = [each for each in examined if each.about == "file"]
    assert found.grade == "warning"
    assert found.summary == f"every user of this machine may read {path}, with all payloads"
    assert found.advice == f"chmod o-rwx {path}*"
    assert "file" not in [each.about for each in again]
