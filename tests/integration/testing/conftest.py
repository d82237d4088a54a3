from pathlib import Path
from shutil import copyfile

import pytest

_PROJECT = Path(__file__).parent / "project"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A user's project: an app and its tests."""
    copyfile(_PROJECT / "bakery.py", tmp_path / "bakery.py")
    copyfile(_PROJECT / "bakery_tests.py", tmp_path / "test_bakery.py")
    return tmp_path
