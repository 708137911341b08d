"""One object: how it stands, its writes over time, what it belongs to, and what was found of it."""

from collections.abc import Mapping

import msgspec

from webhook.dashboard.objects import TrackedObject, show
from webhook.dashboard.plot import plot
from webhook.dashboard.query import BadQueryError, known_only
from webhook.dashboard.scene import MissingError, Scene, Seen
from webhook.dashboard.timeline import Step, steps
from webhook.dashboard.tree import Branch, tree
from webhook.detection.finding import Finding
from webhook.detection.write import ObjectKey
from webhook.status.tracking import Milestone

_PARAMETERS = ("group", "resource", "namespace", "name", "uid")


class ObjectPage(msgspec.Struct, frozen=True):
    """`tracked` and `tree` are null for an object that is not tracked."""

    group: str
    resource: str
    namespace: str
    name: str
    uid: str
    tracked: TrackedObject | None
    writes: tuple[Step, ...]
    reconciled: tuple[Milestone, ...]
    findings: tuple[Finding, ...]
    tree: Branch | None


async def one(scene: Scene, query: Mapping[str, str], now: float) -> Seen:
    """By its uid, or by its names where writes of it had none; raises MissingError."""
    known_only(query, _PARAMETERS)
    group, resource, namespace, name, uid = (query.get(one, "") for one in _PARAMETERS)
    if not resource or not (name or uid):
        raise BadQueryError("resource, and name or uid, say which object is meant")
    detecting = scene.sources.detecting
    tracking = detecting.tracking
    key = ObjectKey(group, "", resource, namespace, name, uid)
    remembered = detecting.detection.history.look(key)
    found = tracking.find(uid)
    about = tuple(one for one in detecting.findings() if _is_about(one, key))
    if remembered is None and found is None and not about:
        raise MissingError(
            "Nothing is known of this object. What has not been written for an hour may be "
            "forgotten, and after a restart only what --store keeps is known."
        )
    model = ObjectPage(
        group=group,
        resource=resource,
        namespace=namespace,
        name=name,
        uid=uid,
        tracked=None if found is None else show(found, now),
        writes=() if remembered is None else steps(remembered),
        reconciled=tracking.milestones.find(uid),
        findings=about,
        tree=await tree(tracking, scene.turns, uid, now),
    )
    drawn = plot(model.writes, model.reconciled, now) if model.writes else None
    return Seen(model, {"plot": drawn})


def _is_about(found: Finding, key: ObjectKey) -> bool:
    where = found.object
    if where.uid or key.uid:
        return where.uid == key.uid
    names = where.group, where.resource, where.namespace, where.name
    return names == (key.group, key.resource, key.namespace, key.name)
