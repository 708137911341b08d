"""How far everything is that a wait is for, sight by sight."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from webhook.status.drawing import object_name
from webhook.status.forest import Node
from webhook.status.goal import Goal, Progress, State, progress
from webhook.status.wanted import Wanted


class Standing(NamedTuple):
    """One object, or something that is not there."""

    name: str
    progress: Progress

    def __str__(self) -> str:
        return f"{self.name}: {self.progress.why}" if self.progress.why else self.name


class Standings:
    """Remembers at which generation the wait for each object began, and what was there."""

    def __init__(self, wanted: Sequence[Wanted], goals: Sequence[Goal]) -> None:
        self._wanted: Final = wanted
        self._goals: Final = goals
        self._began_at: Final[dict[str, int | None]] = {}
        self._were_there: Final[set[Wanted]] = set()

    def take(self, roots: Sequence[Node], there: Mapping[Wanted, frozenset[str]]) -> list[Standing]:
        """Every object that is wanted, those in the way included that do not exist yet.

        A kind or selector that matches nothing is in the way only where nothing else is wanted
        that is there.
        """
        nodes = {node.judged.view.uid: node for root in roots for node in root.walk()}
        found: dict[str, Standing] = {}
        absent: list[Standing] = []
        for one in self._wanted:
            uids = there[one]
            if one.name and not uids:
                gone = one in self._were_there
                state = State.FAILED if gone else State.WAITING
                why = "it was deleted" if gone else "it does not exist yet"
                absent.append(Standing(str(one), Progress(state, why)))
            if uids:
                self._were_there.add(one)
            found |= {uid: self._stand(uid, nodes[uid]) for uid in uids}
        if not found and not absent:
            nothing = Progress(State.WAITING, "nothing matches yet")
            absent = [Standing(str(one), nothing) for one in self._wanted]
        return [*absent, *sorted(found.values(), key=lambda one: one.name)]

    def _stand(self, uid: str, node: Node) -> Standing:
        view = node.judged.view
        began_at = self._began_at.setdefault(uid, view.generation)
        return Standing(object_name(view), progress(node, self._goals, began_at))
