"""Suspects that need no search: the audit log names the webhooks of a write."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from webhook.detection.finding import Confidence
from webhook.detection.suspects import Suspects
from webhook.detection.write import Matched


class Named(Matched, frozen=True, array_like=True, kw_only=True):
    """A write with the webhooks that the API server says changed it."""

    webhooks: tuple[str, ...]


class NamedSuspects(Suspects):
    """Gives back what a write names, all with one confidence, the most frequent first."""

    def __init__(self, confidence: Confidence) -> None:
        super().__init__()
        self._confidence: Final = confidence

    def candidates(self, write: Matched) -> tuple[str, ...]:
        """The webhooks that the write names."""
        return write.webhooks if isinstance(write, Named) else ()

    def ranked(self, names: Iterable[str]) -> Iterator[tuple[str, Confidence]]:
        """Each of them acted: none makes another less likely."""
        counts = names if isinstance(names, Mapping) else dict.fromkeys(names, 0)
        for name in sorted(counts, key=lambda one: (-counts[one], one)):
            yield name, self._confidence
