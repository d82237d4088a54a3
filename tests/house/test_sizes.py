"""Files stay short enough to be read in one sitting."""

from tests.house.tree import ROOT, files

AIM, END = 300, 400

# A file of the library over 300 lines stands here with the reason why it is not two.
LONG: dict[str, str] = {}


def _lines(room: str) -> dict[str, int]:
    # Vectors and the like are data: nobody reads them in one sitting.
    written = (path for path in files(room) if path.suffix != ".csv")
    return {str(path): len((ROOT / path).read_bytes().splitlines()) for path in written}


def test_no_file_has_more_than_400_lines() -> None:
    lines = _lines("src") | _lines("tests") | _lines("benchmarks")

    assert {name: count for name, count in lines.items() if count > END} == {}


def test_a_file_of_the_library_over_300_lines_has_a_reason() -> None:
    long = {name for name, count in _lines("src").items() if count > AIM}

    assert long == set(LONG)
    assert all(LONG.values())
