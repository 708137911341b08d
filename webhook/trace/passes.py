"""Puts the observers' views of one admission pass together.

The calls of a pass share no uid; the pass is known by webhook.admission.join. Within one pass the
API server calls webhooks one after the other, so positions only rise: a lower one begins another
pass (a write repeated after it was denied, or one that runs at the same time).
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from webhook.admission.join import JoinKey
from webhook.admission.review import AdmissionRequest

_MOST_OPEN: Final = 64


class Step(NamedTuple):
    """Two consecutive views of one pass; `before` is None for its first."""

    position_before: int  # -1: before the first view
    position: int
    before: AdmissionRequest | None
    after: AdmissionRequest


@dataclass(slots=True)
class _Pass:
    key: JoinKey
    position: int
    view: AdmissionRequest
    seen: int = 1


class Passes:
    """Takes views as they come, gives steps; counts whole passes and what could not be told."""

    def __init__(self, positions: frozenset[int]) -> None:
        self._positions: Final = positions
        self._last: Final = max(positions, default=0)
        self._open: list[_Pass] = []
        self.whole: Final[Counter[str]] = Counter()  # by subresource
        self.broken = 0  # some observer was not reached, or the write was denied on its way
        self.mixed = 0  # views of writes at the same time that cannot be told apart

    def see(self, position: int, view: AdmissionRequest) -> Step | None:
        """One view; None when it belongs to no pass for certain."""
        key = view.join_key
        if key is None or position not in self._positions:
            return None
        fitting = [one for one in self._open if one.key == key and one.position < position]
        if not fitting:
            self._begin(_Pass(key, position, view))
            return Step(-1, position, None, view)
        if len({_state(one.view) for one in fitting}) > 1:
            self._open = [one for one in self._open if one not in fitting]
            self.mixed += len(fitting)
            return None
        current = fitting[-1]
        step = Step(current.position, position, current.view, view)
        current.position, current.view = position, view
        current.seen += 1
        if position == self._last:
            self._end(current)
        return step

    def close(self) -> None:
        """Count what has not come to its end."""
        self.broken += len(self._open)
        self._open.clear()

    def _begin(self, one: _Pass) -> None:
        self._open.append(one)
        if one.position == self._last:
            self._end(one)
        elif len(self._open) > _MOST_OPEN:
            self._open.pop(0)
            self.broken += 1

    def _end(self, one: _Pass) -> None:
        self._open = [each for each in self._open if each is not one]
        if one.seen == len(self._positions):
            self.whole[one.view.subresource] += 1
        else:
            self.broken += 1


def _state(view: AdmissionRequest) -> tuple[tuple[str, bytes], ...]:
    return tuple(_pairs(view))


def _pairs(view: AdmissionRequest) -> Iterator[tuple[str, bytes]]:
    fields = view.object.fields if view.object is not None else {}
    for key in sorted(fields):
        yield key, bytes(fields[key])
