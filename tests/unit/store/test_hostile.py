"""Who can write to the store gets nothing patched or told but what this server restores itself."""

import importlib
import pkgutil
from typing import Any

import msgspec
import pytest

from genguard import rules
from genguard.objects.intended import EVERY_OBSERVED_GENERATION, Intended, Restored, parse_restored
from genguard.objects.observed import Condition, Observed
from genguard.rules.annotations import GENERATION
from webhook.store.seal import Plain
from webhook.store.shared_writes import ANNOTATION_KEYS, Scripts, SharedWrites

from .test_shared import KEY, FakeStore

PHASE = parse_restored("status.observedGeneration,status.phase")
_LONG = "x" * 100_000


def packed(own: Any = None, conditions: Any = (), fields: Any = ()) -> bytes:
    return msgspec.msgpack.encode(((own, conditions), fields))


async def read(
    intent: bytes | None, told: bytes | None = None, restored: Restored = EVERY_OBSERVED_GENERATION
) -> SharedWrites:
    writes = SharedWrites(FakeStore(intent, told), Scripts("p:", b"replica1"), Plain(), restored)
    await writes.fetch(KEY, 0.0)
    return writes


@pytest.mark.parametrize(
    ("intent", "restored", "kept"),
    [
        # Paths that this server does not restore.
        (packed(5, (), [(["spec", "containers"], b"[]")]), PHASE, Intended(Observed(5, ()))),
        (packed(5, (), [(["metadata", "finalizers"], b'["x"]')]), PHASE, Intended(Observed(5, ()))),
        (
            packed(5, (), [(["metadata", "annotations", "a"], b'"x"')]),
            PHASE,
            Intended(Observed(5, ())),
        ),
        (packed(5, (), [(["status", "phase"], b'"x"')]), Restored(), Intended(Observed(5, ()))),
        (packed(5, (("Ready", 5),)), PHASE, Intended(Observed(5, ()))),
        (packed(5), Restored(own=False), Intended(Observed(None, ()))),
        # Values that are no generation.
        (packed("text"), Restored(), Intended(Observed(None, ()))),
        (packed(2**64 - 1), Restored(), Intended(Observed(None, ()))),
        (packed(-(2**63) - 0), PHASE, Intended(Observed(-(2**63), ()))),
        (packed(2**63), Restored(), Intended(Observed(None, ()))),
        (packed("1" * 20), Restored(), Intended(Observed(None, ()))),
        (packed(5, (("Ready", "now"),)), Restored(), Intended(Observed(5, ()))),
        (packed(5, (("Ready", 2**63),)), Restored(), Intended(Observed(5, ()))),
        # More than any object has.
        (packed(5, [(str(n), 5) for n in range(1_001)]), Restored(), Intended(Observed(5, ()))),
        (packed(5, ((_LONG, 5),)), Restored(), Intended(Observed(5, ()))),
        # Values that no requester's status gives.
        (packed(5, (), [(["status", "phase"], b"{")]), PHASE, Intended(Observed(5, ()))),
        (packed(5, (), [(["status", "phase"], b'"\xff"')]), PHASE, Intended(Observed(5, ()))),
        (packed(5, (), [(["status", "phase"], b"null")]), PHASE, Intended(Observed(5, ()))),
        (packed(5, (), [(["status", "phase"], b"[" * 4_000)]), PHASE, Intended(Observed(5, ()))),
        (
            packed(5, (), [(["status", "phase"], f'"{_LONG}"'.encode())]),
            PHASE,
            Intended(Observed(5, ())),
        ),
        (
            packed(5, (), [(["status", "phase"], b'"x"')] * 2),
            PHASE,
            Intended(Observed(5, ()), ((("status", "phase"), b'"x"'),)),
        ),
    ],
)
async def test_of_an_intent_only_what_this_server_would_have_read_is_kept_and_the_rest_counted(
    intent: bytes, restored: Restored, kept: Intended
) -> None:
    writes = await read(intent, None, restored)
    assert writes.intents.get(KEY, 1.0) == kept
    assert writes.dropped["unfit"] == (0 if kept.observed.own == -(2**63) else 1)


@pytest.mark.parametrize(
    "intent",
    [
        packed(5, (("Ready", 5), ("Ready", "7"), ("Odd", ""))),
        packed("12", (("Ready", None),)),
        packed(2**63 - 1),
    ],
)
async def test_an_intent_that_this_server_could_have_read_is_kept_whole(intent: bytes) -> None:
    writes = await read(intent)
    assert writes.intents.get(KEY, 1.0) == msgspec.msgpack.decode(intent, type=Intended)
    assert writes.dropped.total() == 0


@pytest.mark.parametrize(
    "told",
    [
        {"restore-intent": "x" * 100_000},
        {"restore-intent": "set\nstatus"},
        {"restore-intent": "set \x9b31m"},
        {"restore-intent": "s\u00e9t"},
        {"skipped": "overloaded"},
        {"not a key!": "set"},
        {"": "set"},
        {f"key-{number}": "set" for number in range(1_000)},
    ],
)
async def test_annotations_that_this_server_would_not_give_are_not_repeated(
    told: dict[str, str],
) -> None:
    good = {"restore-intent": "set status.observedGeneration=5"} if "skipped" in told else {}
    writes = await read(None, msgspec.msgpack.encode({**told, **good}))
    assert (writes.rounds.get(KEY, 1.0) or {}) == good
    assert writes.dropped["unfit"] == 1


ODD: list[Any] = [
    None,
    7,
    b"bytes",
    [],
    [None],
    [packed(5), None, None],
    [7, None],
    [packed(5), 7],
    [[packed(5)], None],
    [b"\x92\x92\xa1\xff\x90\x90", None],  # a text that is no UTF-8
    [packed(5), b"\x81\xa1\xff\xa1x"],
    [b"\xc1", None],
    [b"\x91" * 100_000, None],
]


@pytest.mark.parametrize("answer", ODD, ids=range(len(ODD)))
async def test_whatever_the_store_answers_a_write_goes_on_and_it_is_counted(answer: Any) -> None:
    class Odd(FakeStore):
        async def ask(self, operation: str, command: Any) -> Any:
            return answer

    writes = SharedWrites(Odd(), Scripts("p:", b"replica1"), Plain(), Restored())
    await writes.fetch(KEY, 0.0)
    assert writes.intents.get(KEY, 1.0) is None
    assert writes.rounds.get(KEY, 1.0) is None
    assert writes.dropped["unreadable"] == 1


def test_values_of_conditions_that_are_no_generation_leave_the_others_out_too() -> None:
    """They are paired k-th with k-th: without one of them the others are other conditions'."""
    sent = Intended(Observed(5, (Condition("Ready", 5), Condition("Ready", "now"))))
    assert Restored().hold(sent) == Intended(Observed(5, ()))


def test_every_rule_may_tell_what_it_did() -> None:
    told = {GENERATION}
    for module in pkgutil.iter_modules(rules.__path__):
        for found in vars(importlib.import_module(f"{rules.__name__}.{module.name}")).values():
            if hasattr(found, "evaluate") and hasattr(found, "name"):
                told.add(found.name)
    assert told == ANNOTATION_KEYS
