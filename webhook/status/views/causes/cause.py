"""What a cause of disagreement is."""

from collections.abc import Callable
from typing import Final, NamedTuple

from webhook.status.views.evidence import Evidence, Tool


class Cause(NamedTuple):
    """One way in which a tool comes to another judgement."""

    kinds: frozenset[str]
    """`group/Kind`, the core group unnamed; empty for every kind."""
    tool: Tool
    """Whom it explains: it counts only where somebody contradicts that tool."""
    holds: Callable[[Evidence], bool]
    because: str


EVERY_KIND: Final[frozenset[str]] = frozenset()
