"""`python -m tools.mutation [--children N] [PACKAGE...]`: which faults do the unit tests miss?

Prints each fault that no test notices. Fails where the tests of a package notice fewer than 19 of
20 faults, or fewer than half of the faults in one function: nobody has tested that function then.
A few faults cannot be noticed: they change nothing but how long an answer takes.
"""

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from tools.mutation.mutants import ROOT, Mutant, plant

PACKAGES: Final = ("patch", "rules", "generation", "detection")
"""Folders of webhook. The tests in the folder of the same name in tests/unit must notice."""
LEAST: Final = 0.95
LEAST_OF_A_FUNCTION: Final = 0.5
_FEW: Final = 4
"""A function with fewer faults than this is judged with its package alone."""


class Score(NamedTuple):
    """The faults that were put into one package, and those that no test noticed."""

    mutants: list[Mutant]
    survivors: list[Mutant]


def main() -> int:
    """Return 1 where a package or a function is tested too little."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutation", description=__doc__)
    parser.add_argument("--children", type=int, default=2, help="processes at a time")
    parser.add_argument("packages", nargs="*", default=PACKAGES)
    arguments = parser.parse_args()
    failed = False
    for name in arguments.packages:
        score = run(name, arguments.children)
        noticed = len(score.mutants) - len(score.survivors)
        share = f"{noticed / len(score.mutants):.1%}"
        for mutant in score.survivors:
            print(f"  missed: {mutant.function}\n    - {mutant.was}\n    + {mutant.now}")
        print(f"{name}: {len(score.mutants)} faults, {noticed} noticed ({share})", flush=True)
        for complaint in complaints(score):
            failed = True
            print(f"  FAILED: {complaint}", flush=True)
    return failed


def run(name: str, children: int) -> Score:
    """Try every fault of one package; raise CalledProcessError where tests fail without a fault."""
    folder = ROOT / "build" / "mutation" / name
    mutants = plant(f"genguard/{name}", folder)
    file = folder / "mutants.json"
    file.write_text(json.dumps(list(mutants)))
    command = [sys.executable, "-m", "tools.mutation.session", str(file), str(children)]
    command.append(f"tests/unit/{name}")
    with (folder / "session.log").open("w") as log:
        subprocess.run(command, cwd=folder, stdout=log, stderr=log, check=True)
    survivors = [mutants[key] for key in json.loads(file.read_text())]
    return Score(list(mutants.values()), survivors)


def complaints(score: Score) -> Iterator[str]:
    """Say which package or function has too few of its faults noticed."""
    if len(score.survivors) > (1 - LEAST) * len(score.mutants):
        yield f"the tests of a package must notice {LEAST:.0%} of its faults"
    faults = Counter(mutant.function for mutant in score.mutants)
    missed = Counter(mutant.function for mutant in score.survivors)
    for function, count in missed.items():
        if faults[function] >= _FEW and count > (1 - LEAST_OF_A_FUNCTION) * faults[function]:
            yield f"{function}: the tests miss {count} of {faults[function]} faults"


if __name__ == "__main__":
    raise SystemExit(main())
