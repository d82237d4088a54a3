"""Try every mutant: ``python -m mutants [--only TEXT] [--workers N] [--list]``. Prints ``caught n of n``."""

from __future__ import annotations

import argparse
import compileall
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed

from mutants.catalogue import MUTANTS
from mutants.mutant import ROOT, Mutant, run, try_out


def arguments() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m mutants", description="Break rules; the tests must notice.")
    parser.add_argument("--only", default="", metavar="TEXT", help="those whose name, file or tests contain this")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="how many at a time [2]")
    parser.add_argument("--list", action="store_true", help="list them and run nothing")
    return parser.parse_args()


def chosen(text: str) -> list[Mutant]:
    """The mutants that ``--only`` names; all without it."""
    return [m for m in MUTANTS if any(text in part for part in (m.name, m.file, m.caught_by))]


def control(mutants: list[Mutant], workers: int) -> bool:
    """Whether their tests pass without any fault: only then does a failure mean something."""
    tests = sorted({test for mutant in mutants for test in mutant.caught_by.split()})
    outcome = run(tests, "-n", str(workers), seconds=1800)
    passed = not outcome.caught and outcome.detail.startswith("pytest exit code 0:")
    print(f"control: {'green' if passed else 'RED'}, {outcome.detail} ({outcome.seconds:.0f} s)", flush=True)
    return passed


def main() -> int:
    """Try them, print what became of each, and answer 0 if all were caught."""
    options = arguments()
    mutants = chosen(options.only)
    for mutant in mutants:
        mutant.mutated()
    if options.list:
        for mutant in mutants:
            print(f"{mutant.name}  ({mutant.file})")
        return 0
    if not mutants:
        print(f"no mutant contains {options.only!r}", file=sys.stderr)
        return 2
    compileall.compile_dir(ROOT / "src", quiet=1)
    if not control(mutants, options.workers):
        return 1
    caught = 0
    with ThreadPoolExecutor(options.workers) as pool:
        trials = {pool.submit(try_out, mutant): mutant for mutant in mutants}
        for trial in as_completed(trials):
            outcome = trial.result()
            caught += outcome.caught
            word = "caught  " if outcome.caught else "SURVIVED"
            print(f"{word}  {trials[trial].name}: {outcome.detail} ({outcome.seconds:.0f} s)", flush=True)
    print(f"caught {caught} of {len(mutants)}")
    return 0 if caught == len(mutants) else 1


if __name__ == "__main__":
    sys.exit(main())
