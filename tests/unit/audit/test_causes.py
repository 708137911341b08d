"""Root causes in an audit log: the deployment-controller does as two others ask it in turn."""

from genguard.audit.log import AuditLog
from tests.unit.audit.samples import Json, as_lines, audit_log, deployment, event

CONTROLLER = "system:serviceaccount:kube-system:deployment-controller"


def moved(kind: str, number: int, replicas: int, second: float, user: str) -> Json:
    """The PUT of another number of replicas."""
    name, owner = ("web", "") if kind == "deployments" else ("web-1", "u-1")
    stored = deployment(number + 2, number + 2, spec={"replicas": replicas})
    metadata = stored["metadata"]
    metadata |= {"name": name, "uid": f"u-{1 + len(owner)}"}
    if owner:
        metadata["ownerReferences"] = [{"uid": owner, "controller": True}]
    sent = {**stored, "metadata": {**metadata, "resourceVersion": str(number + 1)}}
    return event(
        second=second, level="RequestResponse", resource=kind, subresource="", name=name,
        user=user, sent=sent, stored=stored,
    )  # fmt: skip


def fight(follower: str) -> AuditLog:
    log = audit_log()
    events = []
    for number in range(24):
        replicas, second = (1, 2)[number % 2], number * 0.3
        user = ("gitops", "autoscaler")[number % 2]
        events.append(moved("deployments", number, replicas, second, user))
        events.append(moved("replicasets", number, replicas, second + 0.02, follower))
    for line in as_lines(events):
        log.see(line)
    return log


def test_the_storm_of_the_replica_set_follows_from_the_fight_over_its_deployment():
    by = {one.detector: one for one in fight(CONTROLLER).findings()}
    storm, cause = by["generation-storm"], by["spec-fight"]
    assert (storm.object.resource, storm.severity.value) == ("replicasets", "info")
    assert (cause.severity.value, storm.caused_by, cause.caused_by) == ("warning", cause.id, "")


def test_who_fights_over_the_deployment_is_no_innocent_follower():
    by = {one.detector: one for one in fight("gitops").findings()}
    assert (by["generation-storm"].severity.value, by["generation-storm"].caused_by) == (
        "warning",
        "",
    )
