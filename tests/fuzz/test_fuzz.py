"""The corpus, what is near it, and a short coverage-guided run; `make fuzz TIME=3600` is the long.

The short run begins with the same seed each time and shows that fuzzing works. Only the long one
finds new faults; what it finds joins the corpus, of which every run tries all.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.fuzz.__main__ import run
from tools.fuzz.corpus import CORPUS, seeds
from tools.fuzz.targets import TARGETS

SECONDS = 90 // len(TARGETS)
EACH = [(name, seed) for name in TARGETS for seed in seeds(name)]
PIECES = [b"null", b"1e999", b"7" * 30, b"{}", b"[", b'"', b"\\u0000", b"\n", b"\xff", b"-", b": "]


def test_every_target_has_seeds_and_no_others_are_there():
    assert {path.name for path in CORPUS.iterdir()} == TARGETS.keys()


@pytest.mark.parametrize(("target", "seed"), EACH, ids=["-".join(one) for one in EACH])
def test_a_seed_keeps_its_target_whole(target, seed):
    TARGETS[target](seeds(target)[seed])


@st.composite
def near(draw: st.DrawFn, target: str) -> bytes:
    """A seed with pieces cut out and put in, or two of them joined in their middles."""
    kept = list(seeds(target).values())
    data = draw(st.sampled_from(kept))
    for _ in range(draw(st.integers(0, 4))):
        at, cut = draw(st.integers(0, len(data))), draw(st.integers(0, 12))
        other = draw(st.sampled_from(kept))
        start = draw(st.integers(0, len(other)))
        piece = draw(
            st.sampled_from(PIECES) | st.binary(max_size=4) | st.just(other[start : start + 40])
        )
        data = data[:at] + piece + data[at + cut :]
    return data


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_near_a_seed_keeps_its_target_whole(target):
    @settings(derandomize=True, deadline=None, max_examples=200, database=None)
    @given(near(target))
    def holds(data: bytes) -> None:
        TARGETS[target](data)

    holds()


@pytest.mark.parametrize("target", TARGETS)
def test_a_short_coverage_guided_run_finds_nothing(target, tmp_path):
    done = run(target, SECONDS, tmp_path, seed=1)
    faults = [path.read_bytes() for path in tmp_path.glob("*.fault-*")]
    assert (done.returncode, faults) == (0, [])
