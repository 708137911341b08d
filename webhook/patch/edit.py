"""An edit: what a rule wants to be true of the object, in the object's own terms."""

from typing import Any

import msgspec

from webhook.objects.pointer import Path


class Edit(msgspec.Struct, frozen=True):
    """Set the value at `path`; objects on the way are made, lists are only walked into."""

    path: Path
    value: Any

    @property
    def told(self) -> Any:
        """The value for logs and audit annotations: generations, and of other fields nothing."""
        if not str(self.path[-1]).lower().endswith("generation"):
            return "..."
        number = isinstance(self.value, int) or str(self.value).lstrip("-").isdecimal()
        return self.value if number else "..."
