"""Where the time of a review goes: `python -m tools.bench.profile`, no server and no socket.

First microseconds a review without a profiler, by kind of write: `decode` alone, the whole of
review() in each phase, and `detect`, what detection takes afterwards for a write that only
/mutate sees. Then cProfile over phase mutate, or over detection: the functions with the most time
of their own, whose sum is larger because watching costs time too.
"""

import argparse
import cProfile
import gc
import itertools
import pstats
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from genguard.admission.decode import decode_review
from genguard.admission.review import Phase
from genguard.detection.detection import Detection
from genguard.detection.reduce import Reviewed
from genguard.review import Dependencies, review
from genguard.review_setup import GenerationPatch, ReviewOptions, ReviewSetup
from tools.bench.corpus import Recorded, read_corpus
from tools.bench.template import make_template

_REPEATS: Final = 7
_COPIES: Final = 40
_SHOWN: Final = 25
_SECONDS_APART: Final = 1.0  # so that no write waits long for phases that will not come

Call = Callable[[Any], object]


def main(arguments: Sequence[str] | None = None) -> int:
    """Time, profile, print."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.profile", description=__doc__)
    parser.add_argument("--of", choices=["review", "detection"], default="review")
    parser.add_argument("--sort", default="tottime", help="as pstats takes it [tottime]")
    flags = parser.parse_args(arguments)
    corpus = read_corpus()
    kinds = list(dict.fromkeys(one.write for one in corpus))
    columns = ("count", "decode", *Phase, "detect")
    print(f"{'us a review':16}" + "".join(f"{name:>10}" for name in columns))
    for kind in (*kinds, "all"):
        chosen = [one for one in corpus if kind in (one.write, "all")]
        cells = "".join(f"{micros:10.1f}" for micros in _timed(chosen))
        print(f"{kind:16}{len(chosen):10}{cells}")
    bodies = _bodies(corpus)
    print(f"\n{len(bodies)} times {flags.of} in phase mutate under cProfile:")
    if flags.of == "review":
        _profile(_examining(Phase.MUTATE), bodies, flags.sort)
    else:
        _profile(_detecting(), _examined(bodies), flags.sort)
    return 0


def dependencies() -> Dependencies:
    """Everything on, as the servers of the bench have it."""
    options = ReviewOptions(generation_patch=GenerationPatch.ALWAYS)
    return ReviewSetup(options).dependencies


def _bodies(corpus: Sequence[Recorded]) -> list[bytes]:
    templates = [make_template(one, "/mutate") for one in corpus]
    count = len(templates) * _COPIES
    around = [divmod(number, len(templates)) for number in range(count)]
    return [templates[at].fill(number, each).body for number, (each, at) in enumerate(around)]


def _timed(corpus: Sequence[Recorded]) -> list[float]:
    bodies = _bodies(corpus)
    makers: list[Callable[[], Call]] = [
        lambda: decode_review,
        *(partial(_examining, phase) for phase in Phase),
    ]
    return [*(_micros(make, bodies) for make in makers), _micros(_detecting, _examined(bodies))]


def _examining(phase: Phase) -> Call:
    deps, clock = dependencies(), itertools.count()
    return lambda body: review(body, phase, deps, next(clock) * _SECONDS_APART)


def _detecting() -> Call:
    detection, clock = Detection(), itertools.count()

    def detect(one: Reviewed) -> None:
        observation = detection.observe(Phase.MUTATE, one, next(clock) * _SECONDS_APART)
        if observation is not None:
            detection.see(observation)

    return detect


def _examined(bodies: Sequence[bytes]) -> list[Reviewed]:
    """What the server hands to detection."""
    deps = dependencies()
    results = [review(body, Phase.MUTATE, deps, 0.0).result for body in bodies]
    return [
        Reviewed(one.request, one.prediction, one.status)
        for one in results
        if one.request is not None and one.prediction is not None
    ]


def _micros(make: Callable[[], Call], items: Sequence[Any]) -> float:
    """The best of some repeats, each with a memory of its own: what disturbs only ever adds."""
    best = float("inf")
    for _ in range(_REPEATS):
        call = make()
        gc.collect()
        begun = time.process_time()
        for item in items:
            call(item)
        best = min(best, time.process_time() - begun)
    return best / len(items) * 1e6


def _profile(call: Call, items: Sequence[Any], sort: str) -> None:
    profiler = cProfile.Profile()
    profiler.enable()
    for item in items:
        call(item)
    profiler.disable()
    pstats.Stats(profiler).strip_dirs().sort_stats(sort).print_stats(_SHOWN)


if __name__ == "__main__":
    sys.exit(main())
