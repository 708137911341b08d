"""Which generation of an object was reconciled when: the latest, of those that were lately."""

from collections import OrderedDict, deque
from typing import Final, NamedTuple

from webhook.status.remembered import Remembered

MOST_OBJECTS: Final = 2_000
MOST_STEPS: Final = 16


class Milestone(NamedTuple):
    """From this moment, in Unix seconds, it was the generation reconciled last."""

    at: float
    generation: int


class Milestones:
    """Bounded in objects and in steps of each; the objects longest without a step go first."""

    def __init__(self, most_objects: int = MOST_OBJECTS) -> None:
        self._most: Final = most_objects
        self._steps: Final[OrderedDict[str, deque[Milestone]]] = OrderedDict()

    def see(self, uid: str, state: Remembered) -> None:
        """Take in what is believed of an object now."""
        generation, at = state.reconciled, state.settled_at
        if generation is None or at is None or generation != state.generation:
            return
        steps = self._steps.get(uid)
        if steps is None:
            steps = self._steps[uid] = deque(maxlen=MOST_STEPS)
        elif steps[-1].generation >= generation:
            return
        steps.append(Milestone(at, generation))
        self._steps.move_to_end(uid)
        if len(self._steps) > self._most:
            self._steps.popitem(last=False)

    def of(self, uid: str) -> tuple[Milestone, ...]:
        """What is known of an object, oldest first."""
        return tuple(self._steps.get(uid, ()))
