"""A finding: this loop, on this object, these fields, this actor, since then."""

from enum import StrEnum
from typing import Any

import msgspec

from webhook.detection.sample import WriteDiff


class Severity(StrEnum):
    """Once is an anomaly; the same again on one object is a loop."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class Confidence(StrEnum):
    """How sure it is that an actor did it."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"


class Actor(msgspec.Struct, frozen=True, rename="camel"):
    """Who does it: a webhook ("configuration/webhook"), a user, or a policy."""

    type: str
    name: str
    field_manager: str
    confidence: Confidence

    @property
    def told(self) -> str:
        """As people read it; a webhook is known by its slash, a policy by nothing in its name."""
        kind = "policy " if self.type == "policy" else ""
        return f"{kind}{self.name} ({self.confidence})"


class FoundObject(msgspec.Struct, frozen=True):
    """The object it happens to."""

    group: str
    version: str
    resource: str
    namespace: str
    name: str
    uid: str


class FixStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step that ends a loop.

    command  a line for a shell; "" where there is none
    stanza   YAML to add to a manifest; "" where there is none
    lasting  it mends the cause; the steps before it stop the damage
    """

    title: str
    text: str
    command: str = ""
    stanza: str = ""
    lasting: bool = False


class Finding(
    msgspec.Struct,
    frozen=True,
    rename="camel",
    tag="finding",
    tag_field="type",
    omit_defaults=True,
):
    """One finding as it is shown; `paths` are JSON Pointers, times RFC 3339.

    state   open; quiet: no new sign for a while, but what is wrong in the stored object is still
            wrong; resolved
    fix     the steps that end the loop, where they were asked for: see webhook/detection/fix.py
    repaired  what was wrong in the stored object is right again, and no sign came since: it is
            resolved after a while without a sign
    repair  the command that puts lost values back by hand; "" where there is none
    diff    what happened in one of its writes, where it was asked for: webhook/detection/sample.py
    caused_by  the id of the finding that this one follows from; "" where it stands alone
    """

    id: str
    detector: str
    severity: Severity
    state: str
    object: FoundObject
    subresource: str
    paths: tuple[str, ...]
    actors: tuple[Actor, ...]
    count: int
    first_seen: str
    last_seen: str
    message: str
    evidence: tuple[dict[str, Any], ...]
    fix: tuple[FixStep, ...] = ()
    repair: str = ""
    caused_by: str = ""
    repaired: bool = False
    diff: WriteDiff | None = None
