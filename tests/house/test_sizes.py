"""Files stay short enough to be read in one sitting."""

from tests.house.tree import ROOT, files

MOST = 450


def test_no_file_has_more_than_450_lines() -> None:
    # Vectors and the like are data: they are not read in one sitting.
    written = [path for path in files("src", "tests", "benchmarks", "mutants") if path.suffix != ".csv"]
    lines = {str(path): len((ROOT / path).read_bytes().splitlines()) for path in written}

    assert lines
    assert {name: count for name, count in lines.items() if count > MOST} == {}
