import subprocess
import sys

import pytest

import mainspring


def test_every_public_name_can_be_imported() -> None:
    assert {name for name in mainspring.__all__ if getattr(mainspring, name, None) is None} == set()
    assert set(mainspring._HOME) == set(mainspring.__all__)
    assert set(mainspring.__all__) <= set(dir(mainspring))


def test_a_name_that_is_not_there_says_so() -> None:
    with pytest.raises(AttributeError, match="module 'mainspring' has no attribute 'Mainspin'"):
        mainspring.Mainspin  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize(
    ("program", "unneeded"),
    [
        ("import mainspring", ["asyncio", "msgspec", "mainspring.app.mainspring"]),
        (
            "from mainspring import Mainspring",
            ["asyncpg", "mainspring.storage.sqlite", "pydantic", "uvloop", "mainspring.runtime.worker"],
        ),
        (
            "import mainspring, mainspring.storage.memory; mainspring.Mainspring('memory://')",
            ["asyncpg", "mainspring.storage.postgres", "mainspring.runtime.worker", "mainspring.model.fingerprint"],
        ),
    ],
)
def test_nothing_is_loaded_before_it_is_needed(program: str, unneeded: list[str]) -> None:
    check = f"import sys\n{program}\nprint([name for name in {unneeded} if name in sys.modules])"

    ran = subprocess.run([sys.executable, "-c", check], check=True, capture_output=True, text=True)

    assert ran.stdout == "[]\n"
