"""Suspects that need no search: the audit log names the webhooks of a write, in Write.called."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from webhook.detection.finding import Confidence
from webhook.detection.suspects import Suspects


class NamedSuspects(Suspects):
    """All that writes name with one confidence, the most frequent first."""

    def __init__(self, confidence: Confidence) -> None:
        super().__init__()
        self._confidence: Final = confidence

    def ranked(self, names: Iterable[str]) -> Iterator[tuple[str, Confidence]]:
        """Each of them acted: none makes another less likely."""
        counts = names if isinstance(names, Mapping) else dict.fromkeys(names, 0)
        for name in sorted(counts, key=lambda one: (-counts[one], one)):
            yield name, self._confidence
