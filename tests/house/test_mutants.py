"""Mutants stay true: each changes a place that is there, and names tests that are there."""

from collections import Counter

import pytest

from mutants.catalogue import MUTANTS
from mutants.mutant import Mutant
from tests.house.tree import ROOT

LEAST = 40


def test_there_are_enough_and_each_has_a_name_of_its_own() -> None:
    names = Counter(each.name for each in MUTANTS)

    assert len(names) >= LEAST
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.name)
def test_a_mutant_changes_what_is_there_and_names_tests_that_are_there(mutant: Mutant) -> None:
    assert mutant.mutated()

    for test in mutant.caught_by.split():
        path, *names = test.split("::")
        text = (ROOT / path).read_text() if (ROOT / path).is_file() else ""
        assert (ROOT / path).exists()
        assert all(f"def {name.partition('[')[0]}(" in text for name in names)
