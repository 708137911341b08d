"""What a cluster sends, in order: objects that live as recorded ones did, or repeat a transition.

Every review of a write comes in all three phases. A connection plays one life after the other, so
that an object's reviews are in order however many connections there are.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from genguard.admission.review import Phase
from tests.scenarios.recording import reviews_of
from tools.bench.connection import Connection
from tools.bench.corpus import Recorded, read_corpus
from tools.bench.template import MOST_OBJECTS, Filled, Template, make_template

CALM: Final = "calm"
STORM: Final = "storm"
CALM_FILL: Final = 10_000
"""Reviews after which a server is as warm as one that has run for a while."""
STORM_OBJECTS: Final = 1_000
STORM_FILL: Final = 5 * 3 * STORM_OBJECTS
"""Reviews after which each object has repeated its transition five times, in three phases."""
_RECORDINGS: Final = ("rollouts", "stateful-and-daemon-sets", "thirty-pods-at-once")
"""Deployments, StatefulSets and DaemonSets that are rolled out, and the pods of a scaled one."""
_MOST_WRITES: Final = 1_000
"""Of one life: so many resourceVersions are kept free for it."""
_IDENTITY: Final = re.compile(
    rb'"resource":\{[^}]*"resource":"([a-z]+)"|"name":"([^"]+)"|"resourceVersion":"(\d+)"'
)


class Turn(NamedTuple):
    """One review of a life; `write` counts the writes of the object before this one."""

    template: Template
    write: int


Life = Sequence[Turn]


class Lives:
    """An endless supply of reviews: one life after the other, each of another object.

    With `objects`, lives come back to the same objects after so many.
    """

    def __init__(self, lives: Sequence[Life], objects: int) -> None:
        self._lives: Final = lives
        self._objects: Final = objects
        self._playing: Final[dict[Connection, Iterator[Filled]]] = {}
        self._begun = self._count = 0

    def next(self, connection: Connection) -> Filled:
        """The next review of the life that this connection plays."""
        playing = self._playing.get(connection)
        filled = next(playing, None) if playing else None
        if filled is None:
            playing = self._playing[connection] = self._live()
            filled = next(playing)
        return filled

    def _live(self) -> Iterator[Filled]:
        number, self._begun = self._begun, self._begun + 1
        # Neighbours have different objects, and an object has the same life each time.
        about = number % self._objects
        for turn in self._lives[about % len(self._lives)]:
            self._count += 1
            version = number * _MOST_WRITES + turn.write
            yield turn.template.fill(self._count, about, version)


def _calm(path_of: Callable[[Phase], str]) -> Lives:
    lives = [_life(reviews, path_of) for reviews in _recorded_lives()]
    return Lives(lives, MOST_OBJECTS)


def _storm(path_of: Callable[[Phase], str]) -> Lives:
    """A status transition for half of the objects, a spec transition for the others."""
    lives = [_life(_first_write(write), path_of) for write in ("UPDATE status", "UPDATE")]
    return Lives(lives, STORM_OBJECTS)


LIVES: Final[Mapping[str, Callable[[Callable[[Phase], str]], Lives]]] = {CALM: _calm, STORM: _storm}
"""How to make each; given the path to which the reviews of a phase are sent."""


def _recorded_lives() -> Iterator[Sequence[Recorded]]:
    """The reviews of each object in the recordings, in order."""
    for name in _RECORDINGS:
        lives: dict[tuple[bytes, bytes], list[Recorded]] = {}
        for review in read_corpus(reviews_of(name)):
            lives.setdefault(_object_of(review.body)[:2], []).append(review)
        yield from lives.values()


def _first_write(write: str) -> Sequence[Recorded]:
    """The three phases of a recorded write that changes its object."""
    for life in _recorded_lives():
        chosen = [review for review in life if review.write == write]
        versions = [_object_of(review.body)[2] for review in chosen]
        for at in range(len(chosen) - len(Phase) + 1):
            phases = chosen[at : at + len(Phase)]
            if [one.phase for one in phases] == list(Phase) and versions[at] == versions[at + 2]:
                return phases
    raise LookupError(f"no {write} with all its phases is recorded")


def _life(reviews: Sequence[Recorded], path_of: Callable[[Phase], str]) -> Life:
    versions: dict[bytes, int] = {}
    turns = []
    for review in reviews:
        write = versions.setdefault(_object_of(review.body)[2], len(versions))
        turns.append(Turn(make_template(review, path_of(review.phase)), write))
    return turns


def _object_of(body: bytes) -> tuple[bytes, bytes, bytes]:
    """Resource, name and old resourceVersion; each b"" where the review has none."""
    found = [b"", b"", b""]
    for match in _IDENTITY.finditer(body):
        for at, value in enumerate(match.groups()):
            found[at] = found[at] or value or b""
    return found[0], found[1], found[2]
