"""What Prometheus sees: families by name, and series that no object can multiply."""

import json

from prometheus_client.parser import text_string_to_metric_families

from genguard.admission.review import Phase
from genguard.generation import CustomResource, StatusSubresource
from genguard.review import review
from genguard.review_setup import ReviewOptions, ReviewSetup
from tests.cases_loader import table
from tests.contract.service import serving
from tests.reviews import make_review
from webhook.telemetry.metrics import Metrics


async def test_a_review_is_counted_by_what_became_of_it(running):
    lost = make_review(
        new={"status": {}}, old={"status": {"observedGeneration": 3}}, subresource="status"
    )
    await running.review(lost)
    await running.review(lost, "/intent")
    await running.post(b"{}")
    labels = 'operation="UPDATE",phase="%s",resource="deployments.apps",subresource="status"'
    assert await running.samples("genguard_reviews_total") == {
        f'decision="patched",{labels % "mutate"}': 1.0,
        f'decision="allowed",{labels % "intent"}': 1.0,
        'decision="undecodable",operation="",phase="mutate",resource="other",subresource=""': 1.0,
    }
    assert await running.samples("genguard_predictions_total") == {'cause="subresource-keeps"': 1.0}
    assert await running.samples("genguard_review_seconds_count") == {"": 3.0}


async def test_a_certificate_tells_how_long_it_lasts(running):
    (left,) = (await running.samples("genguard_certificate_expiry_seconds")).values()
    assert 29 * 86_400 < left <= 30 * 86_400


async def test_a_recording_tells_what_it_could_not_keep(tmp_path):
    async with serving(tmp_path, record=tmp_path / "reviews") as run:
        assert await run.samples("genguard_recording_dropped") == {"": 0.0}


def series(metrics: Metrics) -> int:
    return sum(len(family.samples) for family in metrics.registry.collect())


@table("telemetry/odd_names.yaml", "odd")
def test_ten_thousand_odd_names_make_no_new_series(case):
    known = CustomResource("example.org", "v1", "widgets", "Widget", StatusSubresource.PRESENT)
    setup = ReviewSetup(ReviewOptions(custom_resources=(known,)))
    metrics = Metrics(setup.knows)
    body = json.dumps(make_review(new={}, old={}, **case["odd"])).encode()
    sizes = set()
    for number in range(10_000):
        named = body.replace(b"ODD", b"%d" % number)
        reply = review(named, Phase.MUTATE, setup.dependencies, 0.0)
        metrics.record(Phase.MUTATE, reply, 0.001, audit_only=False)
        if number in (0, 9_999):
            sizes.add(series(metrics))
    assert len(sizes) == 1, case.because


async def test_labels_of_any_name_leave_the_page_readable(running):
    for name in ('a"b', "a\nb", "a\\b", "}"):
        asked = make_review(new={}, old={}, resource=f"{name}.example.org", subresource=name)
        await running.post(json.dumps(asked).encode())
    page = (await running.ops("/metrics")).body.decode()
    families = {family.name: family for family in text_string_to_metric_families(page)}
    found = families["genguard_reviews"].samples
    assert {one.labels["resource"] for one in found} == {"other"}
    assert {one.labels["subresource"] for one in found} == {""}
