"""Makes docs/incidents.md: public reports, and what genguard prints of what has their shape."""

import gzip
from collections.abc import Iterable
from typing import Any

import yaml

from genguard.replay import Replay, as_row
from genguard.review_setup import ReviewOptions
from genguard.testing import FakeApiServer
from tests.e2e.test_watch import FIGHTS
from tests.scenarios.recording import DEFINITIONS
from tests.unit.detection.evaluating import CONDITIONS
from webhook.files.given import load_definitions, load_mutators

HEAD = "| what happens | reports | verb | what genguard prints |"
_FOLDER = DEFINITIONS.parent
_CRDS = DEFINITIONS, _FOLDER / "reported" / "crds.json"
_OPTIONS = ReviewOptions(custom_resources=sum(map(load_definitions, _CRDS), ()))
_FIGHTS = {fight[1].__name__.replace("_", "-"): fight for fight in FIGHTS}


def wanted_incidents() -> list[str]:
    """The table as it follows from tests/scenarios/incidents.yaml and from what is played."""
    rows = [HEAD, "|---|---|---|---|"]
    for name, one in yaml.safe_load((_FOLDER / "incidents.yaml").read_text()).items():
        worst, *_ = _play(name, _lines(name))
        verb = one.get("verb") or _verb(name, worst["detector"])
        printed = " ".join(as_row(worst).partition(". Next: ")[0].split())
        reports = ", ".join(one["reports"])
        rows.append(f"| {one['shape']} | {reports} | `{verb}` | `{printed}` |")
    return rows


def _verb(name: str, detector: str) -> str:
    """A watch sees the outcome of updates, and not whose pod it was; it prints no info."""
    shown = (one.replace(b'"extra":', b'"-":') for one in _lines(name) if b'"UPDATE"' in one)
    seen = _play(name, (one for one in shown if b'"phase":"outcome"' in one))
    loud = (one["detector"] for one in seen if one["severity"] != "info")
    return "watch" if detector in loud else "replay"


def _play(name: str, lines: Iterable[bytes]) -> list[dict[str, Any]]:
    """Return what `genguard replay` finds, the worst first."""
    hooks = [*_FOLDER.glob(f"re*/{name}.webhooks.json")]
    run = Replay(_OPTIONS, load_mutators(hooks[0], CONDITIONS) if hooks else None)
    assert all(one["type"] == "review" for one in run.lines(lines, name))
    return list(run.findings())


def _lines(name: str) -> list[bytes]:
    """Return a recording, or one of two managers who overwrite each other's webhook."""
    if name not in _FIGHTS:
        path = min(_FOLDER.glob(f"re*/{name}.*.gz"), key=lambda one: ".audit." in one.name)
        return gzip.decompress(path.read_bytes()).splitlines()
    (kinds, made, managers), server = _FIGHTS[name], FakeApiServer()
    kind = f"{kinds.partition('webhook')[0].title()}WebhookConfiguration"
    body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind}
    for turn, who in enumerate(managers * 6):
        asked = {**body, "metadata": {"name": name}, "webhooks": [made(turn)]}
        server.apply(asked, who, force=True, user=who)
    return [*server.recording()]
