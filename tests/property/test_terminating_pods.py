"""Terminating pods: however the sights of different objects are interleaved, the count is one."""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from genguard.status.terminating_pods import DEPLOYMENT, REPLICA_SET, Agreement, Terminating
from tests.unit.status.sights import see

NAMES = st.sampled_from(["a", "b", "c"])
PODS = st.fixed_dictionaries(
    {"kind": st.just("Pod"), "name": st.sampled_from("pqrstu")},
    optional={
        "of": NAMES.map("ReplicaSet/{}".format) | st.just("Job/j"),
        "app": st.sampled_from(["web", "db"]),
        "ends": st.booleans(),
        "phase": st.sampled_from([None, "Running", "Failed"]),
        "controller": st.booleans(),
        "gone": st.booleans(),
    },
)
OWNERS = st.fixed_dictionaries(
    {"kind": st.sampled_from(["ReplicaSet", "Deployment"]), "name": NAMES},
    optional={
        "of": NAMES.map("Deployment/{}".format),
        "app": st.sampled_from(["web", "db"]),
        "says": st.sampled_from([None, 0, 1, 2]),
        "gone": st.booleans(),
    },
)
Words = dict[str, Any]


def uid(words: Words) -> str:
    return f"{words['kind']}/{words['name']}"


def expected(sights: list[Words]) -> dict[str, tuple[int | None, int]]:
    """Said and counted, from what every object was last seen as."""
    last = {uid(words): words for words in sights}
    there = {key: words for key, words in last.items() if not words.get("gone")}

    def controls(key: str, words: Words) -> bool:
        return words.get("of") == key and words.get("controller", True)

    def of_set(key: str) -> int:
        wanted = there[key].get("app", "web")
        return sum(
            words["kind"] == "Pod"
            and controls(key, words)
            and words.get("ends", True)
            and words.get("phase", "Running") != "Failed"
            and words.get("app", "web") == wanted
            for words in there.values()
        )

    found = {}
    for key, words in there.items():
        if words["kind"] == "ReplicaSet":
            found[key] = (words.get("says"), of_set(key))
        elif words["kind"] == "Deployment":
            sets = [
                one
                for one, seen in there.items()
                if seen["kind"] == "ReplicaSet" and controls(key, seen)
            ]
            found[key] = (words.get("says"), sum(map(of_set, sets)))
    return found


def told(terminating: Terminating) -> dict[str, tuple[int | None, int]]:
    return {
        f"{kind}/{one.name}": (one.reported, one.counted)
        for kind in (REPLICA_SET, DEPLOYMENT)
        for one in terminating.counts(kind)
    }


@given(st.lists(PODS | OWNERS, max_size=25), st.randoms(use_true_random=False))
def test_any_order_of_objects_ends_in_the_same_counts(sights, random):
    # Of one object the order is the API server's, and every watch keeps it.
    lanes: dict[str, list[Words]] = {}
    for words in sights:
        lanes.setdefault(uid(words), []).append(words)
    left, terminating = {key: list(lane) for key, lane in lanes.items()}, Terminating()
    while left:
        key = random.choice(sorted(left))
        see(terminating, **left[key].pop(0))
        left = {key: lane for key, lane in left.items() if lane}
    assert told(terminating) == expected(sights)


@given(st.lists(PODS | OWNERS, max_size=25))
def test_agreement_is_what_a_walk_over_all_objects_finds(sights):
    terminating = Terminating()
    for words in sights:
        see(terminating, **words)
    for kind in (REPLICA_SET, DEPLOYMENT):
        found: Counter[str] = Counter()
        for key, (reported, counted) in expected(sights).items():
            if key.startswith(kind):
                same = "agrees" if reported == counted else "differs"
                found["absent" if reported is None else same] += 1
        assert terminating.agreement(kind) == Agreement(
            found["agrees"], found["differs"], found["absent"]
        )


@given(st.lists(PODS | OWNERS, max_size=25))
def test_when_everything_is_gone_nothing_is_kept(sights):
    terminating = Terminating()
    for words in sights:
        see(terminating, **words)
    for words in sights:
        terminating.forget(uid(words))
    assert not any((terminating._pods, *terminating._owners.values()))
