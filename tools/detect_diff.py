"""What detection finds beside what it found before: `python -m tools.detect_diff`.

Every recorded scenario, as reviews, as its audit log, without outcomes, with reviews lost and
interleaved, and every case of every detector. Each difference from tests/scenarios/found.json is
printed, and then it exits with 1. `--write` keeps what is found now: a commit that does so says
why it differs.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from genguard.detection.questions import FINDINGS
from genguard.replay import Replay
from genguard.review_setup import ReviewOptions
from tests.cases_loader import Case, load
from tests.scenarios import recording
from tests.scenarios.distorting import DISTORTIONS, encoded, writes_of
from tests.unit.detection.evaluating import CONDITIONS
from tests.unit.detection.story import Story
from webhook.files.given import load_definitions, load_mutators

KEPT: Final = Path(__file__).parent.parent / "tests" / "scenarios" / "found.json"
Found = dict[str, list[str]]
"""One line a finding, by what was played."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, or keep."""
    parser = argparse.ArgumentParser(prog="python -m tools.detect_diff", description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep what is found now")
    parser.add_argument("--of", default="", help="only what is named so, as 'reviews/'")
    flags = parser.parse_args(arguments)
    found = {name: sorted(play()) for name, play in _all() if name.startswith(flags.of)}
    known = json.loads(KEPT.read_text())
    kept = {name: some for name, some in known.items() if name.startswith(flags.of)}
    if flags.write:
        others = {name: some for name, some in known.items() if name not in kept}
        KEPT.write_text(json.dumps(others | found, indent=0, sort_keys=True) + "\n")
        return 0
    differing = list(differences(kept, found))
    print("\n".join([*differing, f"{len(found)} played, {len(differing)} differences"]))
    return 1 if differing else 0


def differences(before: Found, now: Found) -> Iterator[str]:
    """Yield a line for each finding that is in one of them alone, and for what was not played."""
    for name in sorted(before.keys() | now.keys()):
        if name not in before or name not in now:
            yield f"{name}: {'not played before' if name not in before else 'not played now'}"
            continue
        gone, new = list(before[name]), []
        for one in now[name]:
            if one in gone:
                gone.remove(one)
            else:
                new.append(one)
        yield from (f"- {name}: {one}" for one in gone)
        yield from (f"+ {name}: {one}" for one in new)


def _all() -> Iterator[tuple[str, Callable[[], list[str]]]]:
    for way, lines_of in _WAYS.items():
        for name in recording.recorded():
            yield f"{way}/{name}", partial(_replayed, lines_of, name)
    for name in FINDINGS:
        for case in load(f"detectors/{name}.yaml", "resource", "object", "steps", "finds"):
            yield f"cases/{name}/{case.name}", partial(_told, name, case)


def _told(name: str, case: Case) -> list[str]:
    resource, found = case.get("resource", "deployments"), case.get("object", {})
    story = Story(name, resource=resource, found=found)
    for step in case["steps"]:
        story.play(step)
    return [_line(msgspec.to_builtins(one)) for one in story.end()]


def _replayed(lines_of: Callable[[str], Iterable[bytes]], name: str) -> list[str]:
    options = ReviewOptions(custom_resources=load_definitions(recording.DEFINITIONS))
    run = Replay(options, load_mutators(recording.webhooks_of(name), CONDITIONS))
    for _ in run.lines(lines_of(name), name):
        pass
    return [_line(one) for one in run.findings()]


def _without_outcomes(name: str) -> Iterator[bytes]:
    lines = recording.read_lines(name)
    return (line for line in lines if json.loads(line)["phase"] != "outcome")


def _distorted(distortion: str) -> Callable[[str], Iterable[bytes]]:
    def lines_of(name: str) -> Iterable[bytes]:
        lines = [json.loads(line) for line in recording.read_lines(name)]
        return encoded(DISTORTIONS[distortion](lines, writes_of(lines)))

    return lines_of


_WAYS: Final[dict[str, Callable[[str], Iterable[bytes]]]] = {
    "reviews": recording.read_lines,
    "audit": recording.read_audit,
    "without-outcomes": _without_outcomes,
    "lossy": _distorted("one in ten lost, 1"),
    "interleaved": _distorted("neighbours interleaved"),
}


def _line(found: dict[str, Any]) -> str:
    about = found.get("object") or {}
    where = "/".join(about.get(key, "") for key in ("resource", "namespace", "name"))
    if "objects" in found:
        where = f"{found['objects']['count']} objects"
    actors = [
        " ".join(one[key] for key in ("type", "name", "confidence")) for one in found["actors"]
    ]
    relation = [key for key in ("causedBy", "partOf") if found.get(key)]
    said = (
        found["detector"],
        f"{where} /{found['subresource']}",
        ",".join(found["paths"]),
        ", ".join(actors),
        found["severity"],
        found["state"],
        *relation,
    )
    return " | ".join(said)


if __name__ == "__main__":
    sys.exit(main())
