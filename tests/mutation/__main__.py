"""`python -m tests.mutation [--children N] [PACKAGE...]`: which faults no test notices.

It fails when a survivor is not in survivors.yaml, when one of the list is none any more, and when
a package has fewer than nine killed of ten.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Final, NamedTuple

from tests.mutation.mutants import ROOT, Mutant, plant
from tests.mutation.survivors import Survivors, load

LEAST: Final = 0.9


class Package(NamedTuple):
    """What is mutated, and the tests that have to notice, without any other's help."""

    sources: tuple[str, ...]
    tests: tuple[str, ...]


class Score(NamedTuple):
    """How many mutants there were, and those that no test noticed."""

    total: int
    survivors: list[Mutant]


_SUSPECTS: Final = ("conditions", "correlate", "matching", "places", "policies", "suspects")
_FINDINGS: Final = ("askers", "evidence", "finding", "finding_state", "ledger")
_TOLD: Final = ("absorbed", "askers", "detectors", "evidence", "kept", "ledger", "suspects")
_WRITES: Final = ("correlate", "detection", "fact", "reduce", "waiting", "write")
_SEEN: Final = (
    "absorbed", "called", "conditions", "correlate", "detection", "detectors", "fact", "waiting",
)  # fmt: skip
_DIFFERENCES: Final = ("changes", "diff")
PACKAGES: Final = {
    "patch": Package(("webhook/patch",), ("tests/unit/patch",)),
    "rules": Package(("webhook/rules",), ("tests/unit/rules",)),
    "generation": Package(("webhook/generation",), ("tests/unit/generation",)),
    "detectors": Package(
        ("webhook/detection/detectors",), ("tests/unit/detection/test_detectors.py",)
    ),
    "suspects": Package(
        tuple(f"webhook/detection/{name}.py" for name in _SUSPECTS),
        tuple(f"tests/unit/detection/test_{name}.py" for name in (*_SUSPECTS, "askers", "called")),
    ),
    "findings": Package(
        tuple(f"webhook/detection/{name}.py" for name in _FINDINGS),
        tuple(f"tests/unit/detection/test_{name}.py" for name in _TOLD),
    ),
    "writes": Package(
        tuple(f"webhook/detection/{name}.py" for name in _WRITES),
        tuple(f"tests/unit/detection/test_{name}.py" for name in _SEEN),
    ),
    "differences": Package(
        tuple(f"webhook/detection/{name}.py" for name in _DIFFERENCES),
        (
            *(f"tests/property/test_{name}.py" for name in ("changes", "compared")),
            *(f"tests/unit/detection/test_{name}.py" for name in ("changes", "diff")),
        ),
    ),
    "history": Package(
        ("webhook/detection/history.py",),
        tuple(f"tests/unit/detection/test_{name}.py" for name in ("detectors", "history")),
    ),
}


def main() -> int:
    """The exit code is 1 when something is to be done."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--children", type=int, default=2, help="processes at a time")
    parser.add_argument("packages", nargs="*", default=list(PACKAGES))
    given = parser.parse_args()
    listed, failed = load(), False
    for name in given.packages:
        score = run(name, given.children)
        killed = score.total - len(score.survivors)
        share = f"{killed / score.total:.1%}"
        print(f"{name}: {score.total} mutants, {killed} killed ({share})", flush=True)
        for complaint in complaints(name, score, listed):
            failed = True
            print(f"  {complaint}", flush=True)
    return failed


def run(name: str, children: int) -> Score:
    """Raises CalledProcessError where the tests fail without any mutant."""
    package, folder = PACKAGES[name], ROOT / "build" / "mutation" / name
    mutants = plant(package.sources, folder)
    file = folder / "mutants.json"
    file.write_text(json.dumps(list(mutants)))
    command = [sys.executable, "-m", "tests.mutation.session", str(file), str(children)]
    with (folder / "session.log").open("w") as log:
        subprocess.run([*command, *package.tests], cwd=folder, stdout=log, stderr=log, check=True)
    return Score(len(mutants), [mutants[key] for key in json.loads(file.read_text())])


def complaints(name: str, score: Score, listed: Survivors) -> Iterator[str]:
    """What has to be done about one package."""
    for one in score.survivors:
        if one not in listed:
            yield f"survives: {one.function}\n    - {one.was}\n    + {one.now}"
    for one in listed:
        if _is_of(name, one.function) and one not in score.survivors:
            yield f"listed, and killed or gone: {one.function}\n    - {one.was}\n    + {one.now}"
    if score.total - len(score.survivors) < LEAST * score.total:
        yield f"fewer than {LEAST:.0%} are killed"


def _is_of(name: str, function: str) -> bool:
    return any(
        function.startswith(source.removesuffix(".py").replace("/", ".") + ".")
        for source in PACKAGES[name].sources
    )


if __name__ == "__main__":
    raise SystemExit(main())
