"""The index of objects that move often: who moves in turn with whom, and what it is held to."""

import pytest
from msgspec.structs import replace

from genguard.detection.history import MOST_MOVES, MOST_MOVING, History
from genguard.detection.write import Requester
from tests.unit.detection.builders import OUTCOME, joined, spec, update

(WRITE,) = joined((OUTCOME, update(spec(a=2), spec(a=1))))


class Cluster:
    """Objects by name, each with a controller of its own."""

    def __init__(self) -> None:
        self._history = History()
        self._count = 0

    def move(self, name: str, seconds: float = 0.1, user: str = "", base: str = ""):
        self._count += 1
        one = replace(
            WRITE,
            time=self._count * seconds,
            object=replace(WRITE.object, name=name, uid=name),
            requester=Requester(user or f"controller-of-{name}", ""),
            base=base or str(self._count),
            state_after=self._count,
        )
        past = self._history.of(one.object)
        self._history.add(past, one)
        return past.in_turn


def others(found) -> list[str]:
    return [] if found is None else [one.object.name for one in found.others]


def test_two_that_move_by_turns_are_known_after_some_turns():
    cluster = Cluster()
    found = [others(cluster.move(name)) for name in "ab" * 8]
    assert found[-2:] == [["b"], ["a"]]
    assert found[:10] == [[]] * 10


@pytest.mark.parametrize("moves", ["aab" * 8, "ab" * 6 + "abb", "ab" * 6 + "ba" * 2 + "bb"])
def test_two_moves_in_a_row_end_it(moves):
    cluster = Cluster()
    assert others([cluster.move(name) for name in moves][-1]) == []


def test_another_actor_or_a_long_pause_begin_anew():
    for change in ({"user": "somebody"}, {"seconds": 100.0}):
        cluster = Cluster()
        for name in "ab" * 8:
            cluster.move(name)
        assert cluster.move("a", **change) is None


def test_of_two_writes_upon_one_version_one_is_a_move():
    cluster = Cluster()
    for name in "ab" * 8:
        cluster.move(name)
    first, second = (cluster.move("a", base="same") for _ in range(2))
    assert len(second.mine.moves if second else ()) in (0, len(first.mine.moves))


def test_an_object_keeps_its_latest_moves():
    cluster = Cluster()
    found = [cluster.move(name) for name in "ab" * 50]
    assert len(found[-1].mine.moves) == MOST_MOVES


def test_the_longest_unmoved_are_dropped():
    cluster = Cluster()
    for name in "ab" * 8:
        cluster.move(name, seconds=0.0)
    for number in range(MOST_MOVING):
        for _ in range(5):
            cluster.move(f"other-{number}", seconds=0.0)
    assert [others(cluster.move(name, seconds=0.0)) for name in "ab"] == [[], []]
