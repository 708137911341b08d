"""Which resources can be watched, and what becomes of an object that cannot be read."""

import logging

import msgspec
import pytest

from genguard.status.tracking import Tracking
from tests.cases_loader import table
from tests.unit.status.sights import sight
from webhook.server.watching import NotWatchableError, Watching, parse_watched
from webhook.tasks.supervisor import Supervisor


@table("server/watched.yaml", "text", "resources")
def test_resources_are_named_as_kubectl_names_them(case):
    assert parse_watched(case["text"]) == tuple(case["resources"]), case.because


@table("server/not_watchable.yaml", "text", "told")
def test_what_cannot_be_watched_is_refused_with_what_to_write(case):
    with pytest.raises(NotWatchableError, match=f"^--watch {case['told']}"):
        parse_watched(case["text"])


def test_an_object_that_cannot_be_read_is_named_by_its_resource_alone(caplog):
    watching = Watching(["pods"], Tracking())
    broken = sight("Pod", "secret-name") | {"status": msgspec.Raw(b'"secret"')}
    with caplog.at_level(logging.WARNING):
        watching.seen("pods", broken)
        watching.seen("pods", {})
    assert [record.message for record in caplog.records] == ["object not read"] * 2
    assert [record.fields for record in caplog.records] == [
        {"resource": "pods", "reason": "ValidationError"},
        {"resource": "pods", "reason": "KeyError"},
    ]
    watching.seen("pods", sight("Pod", "good"))
    assert watching.terminating.pods() == {"": 1}


@pytest.mark.parametrize("is_cut", [True, False], ids=["too deep for the list", "a wrong type"])
def test_of_an_object_that_can_no_longer_be_read_nothing_old_is_shown(is_cut):
    tracking, supervisor = Tracking(), Supervisor()
    watching = Watching(["pods"], tracking, supervisor=supervisor)
    watching.seen("pods", sight("Pod", "one"))
    assert tracking.find("Pod/one") is not None
    if is_cut:
        watching.leave_out("pods", "Pod/one")
    else:
        watching.seen("pods", sight("Pod", "one") | {"status": msgspec.Raw(b'"wrong"')})
    assert tracking.find("Pod/one") is None
    assert watching.terminating.pods() == {}
    assert supervisor.left_out == {"unreadable objects": 1}
    watching.seen("pods", sight("Pod", "one"))
    assert tracking.find("Pod/one") is not None, "it may be read again"


@pytest.mark.parametrize(
    ("resource", "kind"),
    [("jobs.batch", "Job"), ("deployments.apps", "Deployment"), ("pods", "Pod")],
)
def test_every_watched_kind_is_tracked_from_its_first_sight_until_it_is_gone(resource, kind):
    tracking = Tracking()
    watching = Watching([resource], tracking)
    watching.seen(resource, sight(kind, "one"))
    found = tracking.find(f"{kind}/one")
    assert found is not None
    assert (found.kind.kind, found.state.namespace, found.state.name) == (kind, "shop", "one")
    watching.gone(f"{kind}/one")
    assert tracking.find(f"{kind}/one") is None
