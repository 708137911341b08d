"""Reviews of one object in time, fed to a Detection as the server feeds it."""

import json
from typing import Any

from tests.reviews import judge, make_review
from webhook.admission.review import Phase
from webhook.detection.assemble import Reviewed
from webhook.detection.correlate import Correlator
from webhook.detection.detection import Detection
from webhook.detection.write import Write
from webhook.pipeline import review

INTENT, MUTATE, OUTCOME = Phase.INTENT, Phase.MUTATE, Phase.OUTCOME
_dependencies = judge(audit_only=True)


def reviewed(asked: dict[str, Any], phase: Phase) -> Reviewed:
    verdict = review(json.dumps(asked).encode(), phase, _dependencies, 0.0).verdict
    assert verdict.request is not None
    assert verdict.prediction is not None
    return Reviewed(verdict.request, verdict.prediction, verdict.status)


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
    detection.see(phase, reviewed(asked, phase), now)


def joined(*reviews: tuple[Phase, dict[str, Any]], now: float = 100.0) -> list[Write]:
    """The writes that come of these reviews, those that wait to the end among them."""
    correlator = Correlator()
    found = [
        write
        for phase, asked in reviews
        for write in correlator.see(phase, reviewed(asked, phase), now)
    ]
    return [*found, *correlator.finish()]


def spec(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


def status(**fields: Any) -> dict[str, Any]:
    return {"status": fields}
