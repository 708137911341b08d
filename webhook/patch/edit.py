"""An edit: what a rule wants to be true of the object, in the object's own terms."""

from dataclasses import dataclass
from typing import Any

from webhook.objects.pointer import Path


@dataclass(frozen=True, slots=True)
class Edit:
    """Set the value at `path`; objects on the way are made, lists are only walked into."""

    path: Path
    value: Any
