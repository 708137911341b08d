"""Which writes an API server refuses, by its metrics."""

from genguard.admission.matching import Writes
from tests.cases_loader import Case, table
from webhook.cluster.registrations import FEW, REFUSED_SECONDS, RefusedWrites, refusals

STATUS = Writes("apps", "deployments/status", "UPDATE")


def line(count, **labels):
    given = {
        "code": "409", "component": "apiserver", "dry_run": "", "group": "apps",
        "resource": "deployments", "scope": "resource", "subresource": "status",
        "verb": "PUT", "version": "v1",
    } | labels  # fmt: skip
    text = ",".join(f'{key}="{value}"' for key, value in given.items())
    return f"apiserver_request_total{{{text}}} {count}\n".encode()


@table("attribution/refused_counts.yaml", "labels", "counted")
def test_refusals_are_counted_by_what_was_written(case: Case) -> None:
    wanted = {} if case["counted"] is None else {Writes(*case["counted"]): 5}
    found = refusals(b"# HELP\n" + line(5, **case["labels"]) + b"other 1\n")
    assert found == wanted, case.because


def test_counts_of_several_codes_and_versions_are_added():
    assert refusals(line(5) + line(2, code="422") + line("1e+06", version="v2")) == {
        STATUS: 1000007
    }


class Scene:
    def __init__(self) -> None:
        self.now, self.changes = 0.0, 0
        self.refused = RefusedWrites(None, self._changed, lambda: self.now)

    def _changed(self):
        self.changes += 1


def test_a_few_refusals_since_the_last_look_count_for_a_while():
    scene = Scene()
    scene.refused.see({STATUS: 100})
    assert not scene.refused.is_refused(STATUS)  # since nobody knows when
    scene.refused.see({STATUS: 100 + FEW - 1})
    assert not scene.refused.is_refused(STATUS)
    scene.refused.see({STATUS: 100 + 2 * FEW})
    assert scene.refused.is_refused(STATUS)
    assert scene.changes == 1
    scene.now += REFUSED_SECONDS / 2
    scene.refused.see({STATUS: 100 + 3 * FEW})
    scene.now += REFUSED_SECONDS / 2
    assert scene.refused.is_refused(STATUS)  # they go on
    assert scene.changes == 1
    scene.now += REFUSED_SECONDS
    assert not scene.refused.is_refused(STATUS)
