"""A file is named for what it holds."""

import re

from tests.house.tree import files

EMPTY_WORDS = {"manager", "helper", "util", "common", "base", "misc", "core", "impl"}


def test_no_file_or_folder_is_named_with_an_empty_word() -> None:
    named = {
        str(path)
        for path in files("src", "tests", "benchmarks", "docs", "examples")
        for word in re.split(r"[^a-z]+", str(path).lower())
        if word in EMPTY_WORDS or word.removesuffix("s") in EMPTY_WORDS
    }

    assert named == set()
