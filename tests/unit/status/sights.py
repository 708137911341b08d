"""Pods, ReplicaSets and Deployments as watches show them, from a few words."""

from typing import Any

from genguard.objects.fields import Fields, fields_of
from genguard.status.terminating_pods import Terminating

_API_VERSION = {"Pod": "v1", "ReplicaSet": "apps/v1", "Deployment": "apps/v1", "Job": "batch/v1"}


def sight(
    kind: str,
    name: str,
    *,
    of: str = "",
    app: str = "web",
    ends: bool = True,
    phase: str | None = "Running",
    controller: bool = True,
    says: int | None = None,
    due: str = "12:00:00",
    grace: int = 30,
    policy: str = "",
) -> Fields:
    """One object.

    of      its controller: `Kind/name`
    says    what status.terminatingReplicas is
    due     the time of day at which its grace period ends
    policy  spec.podReplacementPolicy
    """
    metadata: dict[str, Any] = {"name": name, "namespace": "shop", "uid": f"{kind}/{name}"}
    metadata["labels"] = {"app": app}
    if of:
        owner = {"kind": of.partition("/")[0], "name": of.partition("/")[2], "uid": of}
        metadata["ownerReferences"] = [owner | ({"controller": True} if controller else {})]
    document: dict[str, Any] = {"apiVersion": _API_VERSION[kind], "kind": kind}
    document["metadata"] = metadata
    if kind == "Pod":
        ending = {"deletionTimestamp": f"2026-07-25T{due}Z", "deletionGracePeriodSeconds": grace}
        metadata |= ending if ends else {}
        document |= {} if phase is None else {"status": {"phase": phase}}
    else:
        document["spec"] = {"selector": {"matchLabels": {"app": app}}}
        document["spec"] |= {"podReplacementPolicy": policy} if policy else {}
        document["status"] = {} if says is None else {"terminatingReplicas": says}
    return fields_of(document)


def see(terminating: Terminating, *, gone: bool = False, **words: Any) -> None:
    """Show a sight, or the end of an object."""
    if gone:
        terminating.forget(f"{words['kind']}/{words['name']}")
        return
    seen = sight(**words)
    if words["kind"] == "Pod":
        terminating.record_pod(seen)
    else:
        terminating.record_owner(words["kind"], seen)
