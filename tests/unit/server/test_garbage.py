"""Free memory goes back to the system after a burst, and not while there is much to do."""

import os

import pytest

from tests.bench.processes import resident_bytes
from webhook.server import garbage
from webhook.server.garbage import Heap


@pytest.fixture
def trims(monkeypatch):
    found = []
    monkeypatch.setattr(garbage, "_trim", found.append)
    return found


@pytest.mark.parametrize(
    ("judged", "times"),
    [
        pytest.param((0, 0, 0), 0, id="idle from the start"),
        pytest.param((500, 500), 0, id="too little was done to be worth it"),
        pytest.param((5_000, 10_000, 15_000), 0, id="there is much to do"),
        pytest.param((5_000, 5_050), 1, id="a burst, and then little to do"),
        pytest.param((5_000, 5_050, 5_050, 5_100), 1, id="once for a burst"),
        pytest.param((5_000, 5_050, 9_000, 9_010), 2, id="once for each of two"),
    ],
)
def test_it_waits_for_the_quiet_after_a_burst(trims, judged, times):
    heap = Heap()
    for number in judged:
        heap.look(number)
    assert len(trims) == times


def test_what_was_freed_between_what_is_kept_goes_back():
    """Kilobytes of bodies with kept ones among them: the end of the heap stays in use."""
    bodies = [b"." * 9_000 for _ in range(4_000)]
    kept = bodies[::40]
    bodies.clear()
    before = resident_bytes(os.getpid())
    heap = Heap()
    heap.look(5_000)
    heap.look(5_000)
    assert before - resident_bytes(os.getpid()) > 20_000_000
    assert len(kept) == 100
