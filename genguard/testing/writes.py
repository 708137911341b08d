"""One write: what a request asks for, the review that webhooks see, and what the log keeps."""

import copy
import uuid
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from genguard.testing.preparing import Document
from genguard.testing.resources import Resource

_REFUSED: Final = 400


@dataclass(frozen=True, slots=True)
class Call:
    """Who writes, and how: what a request says beside the object.

    manager     fieldManager
    validation  fieldValidation: `Ignore`, `Warn` or `Strict`
    force       an apply that takes fields from other managers; None where it was not given
    """

    user: str = "test"
    manager: str = "test"
    dry_run: bool = False
    validation: str = "Warn"
    force: bool | None = None


class Answer(NamedTuple):
    """What the fake answers: an HTTP status, an object, and warnings."""

    status: int
    body: Document
    warnings: tuple[str, ...] = ()


class Target(NamedTuple):
    """An object, or one of its subresources."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


class Event(NamedTuple):
    """A change that watches are told of; `before` is None for a new object."""

    version: int
    type: str
    target: Target
    object: Document
    before: Document | None


@dataclass(frozen=True, slots=True)
class Write:
    """One write in the log of the fake: who asked for what, and what was stored.

    asked   the object that was asked for, before generation was counted; None for a delete
    after   the object that is stored then; None where it is gone, or the write was refused
    status  the HTTP status of the answer
    admitted  what mutating webhooks made of it; None where they were not asked
    """

    time: datetime
    user: str
    manager: str
    operation: str
    target: Target
    before: Document | None
    asked: Document | None
    after: Document | None
    status: int
    dry_run: bool = False
    options: Document | None = None
    review: Document = field(default_factory=dict, repr=False)
    admitted: Document | None = field(default=None, repr=False)

    @property
    def is_stored(self) -> bool:
        """Whether it changed what is stored: not refused, no dry run, and not the same again."""
        return not self.is_refused and not self.dry_run and self.before != self.after

    @property
    def is_refused(self) -> bool:
        """Whether the answer was an error."""
        return self.status >= _REFUSED

    def __str__(self) -> str:
        """One line: who did what to which object, and its generation before and after."""
        target = self.target
        named = target.namespace, target.name, target.subresource
        name = "/".join(filter(None, named))
        steps = [
            "-" if state is None else str(state["metadata"].get("generation", "-"))
            for state in (self.before, self.after)
        ]
        return (
            f"{self.user} ({self.manager}) {self.operation} {target.resource.name} {name}: "
            f"{self.status}, generation {steps[0]} → {steps[1]}"
        )


def make_review(
    operation: str,
    target: Target,
    new: Document | None,
    old: Document | None,
    call: Call,
    *,
    options: Document | None = None,
) -> Document:
    """Return the AdmissionReview that a webhook would be sent."""
    resource = target.resource
    shown = [None if document is None else copy.deepcopy(document) for document in (new, old)]
    of_object = {"group": resource.group, "version": resource.version}
    kind = {**of_object, "kind": resource.kind}
    if target.subresource == "scale":
        kind = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    return {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": str(uuid.uuid4()),
            "kind": kind,
            "resource": {**of_object, "resource": resource.plural},
            **({"subResource": target.subresource} if target.subresource else {}),
            "name": target.name,
            **({"namespace": target.namespace} if target.namespace else {}),
            "operation": operation,
            "userInfo": {"username": call.user, "groups": ["system:authenticated"]},
            "object": shown[0],
            "oldObject": shown[1],
            "dryRun": call.dry_run,
            "options": {"fieldManager": call.manager} if options is None else options,
        },
    }
