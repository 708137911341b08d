"""An edit: a path in the object, and the value that a rule wants there."""

from typing import Any

import msgspec

from genguard.objects.pointer import Path


class Edit(msgspec.Struct, frozen=True):
    """Set the value at `path`. Missing objects on the path are made, items of lists are not."""

    path: Path
    value: Any

    @property
    def shown(self) -> Any:
        """The value for logs and audit annotations; '...' for every field but generations."""
        if not str(self.path[-1]).lower().endswith("generation"):
            return "..."
        number = isinstance(self.value, int) or str(self.value).lstrip("-").isdecimal()
        return self.value if number else "..."
