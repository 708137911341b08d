"""Reviews of one object in time, fed to a Detection as the server feeds it."""

import json
from typing import Any

from msgspec import structs

from genguard.admission.review import Phase
from genguard.detection.detection import Detection
from genguard.detection.finding import Finding
from genguard.detection.ledger import Ledger, Row
from genguard.detection.mutators import Mutators
from genguard.detection.observation import Observation
from genguard.detection.reduce import Reviewed
from genguard.detection.write import Write
from genguard.review import Dependencies, review
from tests.reviews import make_dependencies, make_review

INTENT, MUTATE, OUTCOME = Phase.INTENT, Phase.MUTATE, Phase.OUTCOME
_dependencies = make_dependencies(audit_only=True)


def reviewed(
    asked: dict[str, Any], phase: Phase, dependencies: Dependencies = _dependencies
) -> Reviewed:
    result = review(json.dumps(asked).encode(), phase, dependencies, 0.0).result
    assert result.request is not None
    assert result.prediction is not None
    return Reviewed(result.request, result.prediction, result.status)


def update(
    new: dict[str, Any], old: dict[str, Any], base: str = "7", sent: str | None = None, **more: Any
) -> dict[str, Any]:
    """An update upon `base`; `sent` is the resourceVersion that the client sent."""
    version = {"resourceVersion": sent or base}
    return make_review(
        "UPDATE",
        more.pop("resource", "deployments"),
        {**new, "metadata": {"generation": 1, **version}},
        {**old, "metadata": {"generation": 1, "resourceVersion": base}},
        **more,
    )


def feed(detection: Detection, phase: Phase, asked: dict[str, Any], now: float) -> None:
    see(detection, phase, reviewed(asked, phase), now)


def see(detection: Detection, phase: Phase, one: Reviewed, now: float) -> None:
    observation = detection.observe(phase, one, now)
    if observation is not None:
        detection.see(observation)


class Examining(Detection):
    """Keeps the writes that it examines."""

    def __init__(self, mutators: Mutators | None = None, **more: Any) -> None:
        super().__init__(mutators, **more)
        self.writes: list[Write] = []

    def _examine_update(self, write: Write) -> None:
        self.writes.append(write)
        super()._examine_update(write)


def joined(*reviews: tuple[Phase, dict[str, Any]], now: float = 100.0) -> list[Write]:
    """The writes that come of these reviews, compared, those that wait to the end among them."""
    detection = Examining()
    for phase, asked in reviews:
        feed(detection, phase, asked, now)
    detection.finish(now)
    return detection.writes


def observation(
    phase: Phase,
    asked: dict[str, Any],
    now: float = 100.0,
    dependencies: Dependencies = _dependencies,
) -> Observation:
    """What one review shows to a replica that knows of no other, compared leaf by leaf."""
    found = Detection().observe(phase, reviewed(asked, phase, dependencies), now)
    assert found is not None
    return found


def with_content(write: Write, **diffs: Any) -> Write:
    """The same write with other differences in what is not metadata."""
    return structs.replace(write, content=structs.replace(write.content, **diffs))


def spec(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


def status(**fields: Any) -> dict[str, Any]:
    return {"status": fields}


def settled(known: Ledger | Detection, now: float) -> list[Finding]:
    """Settle, and return what is resolved by that."""
    before = {one.id for one in known.findings() if one.state == "resolved"}
    known.resolve_quiet(now)
    return [x for x in known.findings() if x.state == "resolved" and x.id not in before]


def rows_of(ledger: Ledger) -> list[Row]:
    """All findings as they are saved."""
    return [(one.id, ledger.content(one)) for one in ledger.kept()]
