"""What a replica sends to the store, and when it relies on its own copy."""

from msgspec.structs import replace

from genguard.admission.review import JoinKey
from genguard.objects.intended import Intended, Restored
from genguard.objects.observed import Condition, Observed
from webhook.store.circuit_breaker import StoreLostError
from webhook.store.seal import Plain
from webhook.store.shared_writes import (
    Scripts,
    SharedWrites,
    digest,
    pack_annotations,
    pack_intent,
    unpack_annotations,
    unpack_intent,
)

KEY = JoinKey("apps", "deployments", "status", "default", "a", "uid", "someone", "7", dry_run=False)
FIVE = Intended(Observed(5, (Condition("Ready", "7"),)), ((("status", "phase"), b'"Ready"'),))
TOLD = {"restore-intent": "set status.observedGeneration=5"}
EVERYTHING = Restored(paths=(("status", "phase"),))
SCRIPTS = Scripts("p:", b"replica1")
ELSEWHERE = Scripts("p:", b"replica2")


class FakeStore:
    """Keeps what it is sent, and answers with what it is given."""

    def __init__(self, *answer: bytes | None) -> None:
        self.answer = answer
        self.published = []
        self.while_asked = lambda: None

    def publish(self, operation, command) -> None:
        self.published.append(operation)

    async def ask(self, operation, command):
        self.while_asked()
        if not self.answer:
            raise StoreLostError("gone")
        return list(self.answer)


def test_an_intent_and_what_was_told_come_back_as_they_were():
    assert unpack_intent(pack_intent(FIVE)) == FIVE
    assert unpack_annotations(pack_annotations(TOLD)) == TOLD


def test_keys_are_short_and_equal_for_equal_writes_alone():
    other = replace(KEY, name="a-telling-name" * 10)
    assert digest(KEY, b"") == digest(replace(KEY), b"")
    assert digest(other, b"") != digest(KEY, b"")
    assert digest(KEY, b"secret") != digest(KEY, b"")
    assert len(digest(other, b"")) == 32


def test_what_is_sent_here_is_published_and_not_asked_for():
    store = FakeStore()
    writes = SharedWrites(store, SCRIPTS, Plain(), EVERYTHING)
    assert writes.lacks(KEY, 0.0)
    writes.intents.put(KEY, FIVE, 0.0)
    assert not writes.lacks(KEY, 1.0)
    assert writes.intents.get(KEY, 1.0) == FIVE
    assert writes.intents.get(KEY, 2.0) == FIVE
    assert store.published == ["put", "mark"], "asked for once: the others need not hear it twice"


async def test_what_is_fetched_is_there_for_this_round_and_the_next():
    store = FakeStore(pack_intent(FIVE), pack_annotations(TOLD))
    writes = SharedWrites(store, SCRIPTS, Plain(), EVERYTHING)
    await writes.fetch(KEY, 0.0)
    assert not writes.lacks(KEY, 1.0)
    assert writes.intents.get(KEY, 1.0) == FIVE
    assert writes.rounds.get(KEY, 1.0) == TOLD
    assert store.published == []


async def test_what_is_cancelled_or_unknown_is_asked_for_again():
    for answer in ((b"", None), (None, None), (b"\xc1", None), ()):
        writes = SharedWrites(FakeStore(*answer), SCRIPTS, Plain(), EVERYTHING)
        await writes.fetch(KEY, 0.0)
        assert writes.intents.get(KEY, 1.0) is None
        assert writes.lacks(KEY, 1.0)


async def test_a_copy_is_good_until_it_is_called_back():
    store = FakeStore(pack_intent(FIVE), pack_annotations(TOLD))
    writes = SharedWrites(store, SCRIPTS, Plain(), EVERYTHING)
    await writes.fetch(KEY, 0.0)
    own, others = (
        SCRIPTS.put_annotations(digest(KEY, b""), b""),
        ELSEWHERE.put_annotations(digest(KEY, b""), b""),
    )
    writes.invalidate(own[-1])
    assert not writes.lacks(KEY, 1.0)
    writes.invalidate(others[-1])
    assert writes.lacks(KEY, 1.0)
    assert writes.rounds.get(KEY, 1.0) is None
    writes.intents.put(KEY, FIVE, 2.0)
    writes.invalidate_all()
    assert writes.lacks(KEY, 3.0)


async def test_what_is_called_back_while_it_is_fetched_is_not_taken_over():
    store = FakeStore(pack_intent(FIVE), None)
    writes = SharedWrites(store, SCRIPTS, Plain(), EVERYTHING)
    store.while_asked = lambda: writes.invalidate(
        ELSEWHERE.put_annotations(digest(KEY, b""), b"")[-1]
    )
    await writes.fetch(KEY, 0.0)
    assert writes.lacks(KEY, 1.0)


def test_only_what_another_replica_may_say_otherwise_is_told():
    store = FakeStore()
    writes = SharedWrites(store, SCRIPTS, Plain(), EVERYTHING)
    writes.rounds.put(KEY, {"generation": "4 spec-changed"}, 0.0)
    assert store.published == []
    writes.rounds.put(KEY, TOLD, 0.0)
    assert store.published == ["tell"]


def test_a_dry_run_is_nobody_elses_business():
    store, dry = FakeStore(), replace(KEY, dry_run=True)
    writes = SharedWrites(store, SCRIPTS, Plain(), EVERYTHING)
    assert not writes.lacks(dry, 0.0)
    writes.intents.put(dry, FIVE, 0.0)
    writes.rounds.put(dry, TOLD, 0.0)
    assert writes.intents.get(dry, 0.0) == FIVE
    assert store.published == []
