"""What is on its way is kept as long as the leader may have to be told again, and taken once."""

import msgspec
import pytest

from genguard.detection.fact import encode_fact
from tests.unit.detection.test_fact_queue import ONCE
from webhook.store import stream as module
from webhook.store.seal import Plain
from webhook.store.stream import (
    KEPT_SECONDS,
    MOST_BYTES,
    MOST_SECONDS,
    Facts,
    Stream,
    StreamConsumer,
    StreamProducer,
)

FACT = encode_fact(ONCE[0])


class Sender:
    def __init__(self) -> None:
        self.now = 100.0
        self.sent: list[Facts] = []
        self.producer = StreamProducer(self.sent.append, b"me", lambda: self.now)

    def send(self, *facts: bytes) -> None:
        for fact in facts:
            self.producer.put(fact)
        self.producer.flush()

    def again(self) -> list[int]:
        """The numbers of what is sent again."""
        self.sent.clear()
        self.producer.send_again()
        return [one.number for one in self.sent]


def test_what_is_gathered_goes_as_one_message_and_nothing_is_no_message():
    sender = Sender()
    sender.send()
    sender.send(b"one", b"two")
    sender.send(b"three")
    assert sender.sent == [Facts(b"me", 1, (b"one", b"two")), Facts(b"me", 2, (b"three",))]


def test_that_something_was_not_seen_is_told_once():
    sender = Sender()
    sender.producer.miss()
    sender.producer.miss()
    sender.send()
    sender.send(b"one")
    assert sender.sent == [Facts(b"me", 1, (), missed=True), Facts(b"me", 2, (b"one",))]


def test_it_is_time_to_send_when_a_message_is_full():
    sender = Sender()
    assert not sender.producer.put(b"x" * (MOST_BYTES - 1))
    assert sender.producer.put(b"x")


def test_what_was_taken_is_sent_again_for_a_while_and_the_rest_until_it_is_taken():
    """For a while, because of two replicas that believed that they lead one was wrong."""
    sender = Sender()
    for fact in (b"one", b"two", b"three"):
        sender.send(fact)
    sender.producer.confirm(2)
    assert sender.again() == [1, 2, 3]
    sender.now += KEPT_SECONDS + 1
    assert sender.again() == [3]
    assert sender.producer.dropped == 0


def test_what_was_never_taken_is_given_up_and_counted():
    sender = Sender()
    sender.send(b"one")
    sender.now += MOST_SECONDS + 1
    sender.send(b"two")
    assert sender.again() == [2]
    assert sender.producer.dropped == 1


def test_what_is_kept_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "MOST_KEPT_BYTES", 2_000)
    sender = Sender()
    for _ in range(5):
        sender.send(b"x" * 500)
    assert len(sender.again()) < 5
    assert sender.producer.dropped == 5 - len(sender.sent)


def test_the_lag_is_that_of_the_oldest():
    sender = Sender()
    assert sender.producer.lag() == 0.0
    sender.send(b"one")
    sender.now += 2.0
    sender.send(b"two")
    assert sender.producer.lag() == 2.0
    sender.producer.confirm(2)
    assert sender.producer.lag() == 0.0


class Leader:
    def __init__(self) -> None:
        self.missed = 0
        self.consumer = StreamConsumer(Stream("p:", Plain()), self._miss)

    def _miss(self) -> None:
        self.missed += 1

    def take(self, number: int, *facts: bytes, sender: bytes = b"one", missed: bool = False) -> int:
        """How many facts wait now."""
        message = Facts(sender, number, facts, missed)
        command = Stream("p:", Plain()).append(message)
        self.consumer.read(b"1-%d" % number, command[5], 100.0)  # type: ignore[arg-type]
        return len(self.consumer.queue)


def test_a_message_that_comes_again_is_taken_once_also_by_the_next_leader():
    leader, other = Leader(), Leader()
    assert leader.take(1, FACT) == 1
    assert leader.take(1, FACT) == 1
    assert leader.take(1, FACT, sender=b"two") == 2
    other.consumer.begin(leader.consumer.at, leader.consumer.taken)
    assert other.take(1, FACT) == 0
    assert other.take(2, FACT) == 1
    assert other.missed == 0


def test_what_was_lost_on_the_way_or_not_seen_is_noted():
    leader = Leader()
    leader.take(5, FACT)
    assert leader.missed == 0, "nobody knows what came before"
    leader.take(8, FACT)
    assert (leader.missed, leader.consumer.counts["missed"]) == (1, 2)
    leader.take(9, missed=True)
    assert leader.missed == 2
    leader.take(10, b"of another version")
    assert (leader.missed, leader.consumer.counts["unreadable"]) == (3, 1)


@pytest.mark.parametrize("raw", [b"", b"\xc1", msgspec.msgpack.encode(["facts9", b"a", 1, []])])
def test_what_is_no_message_is_counted_and_passed_over(raw):
    leader = Leader()
    leader.consumer.read(b"1-1", raw, 100.0)
    assert leader.consumer.counts["unreadable"] == 1
    assert leader.consumer.at == b"1-1"


def test_of_replicas_that_ended_long_ago_nothing_is_remembered(monkeypatch):
    monkeypatch.setattr(module, "MOST_SENDERS", 2)
    leader = Leader()
    leader.take(4, sender=b"first")
    for number in range(5):
        leader.take(1, sender=b"restarted %d" % number)
    leader.take(9, sender=b"first")
    assert leader.missed == 0, "it is as unknown as at its first message"
    assert len(leader.consumer.taken) == 2


def test_a_message_is_small_beside_what_is_in_it():
    fact = b"x" * 300
    command = Stream("p:", Plain()).append(Facts(b"12345678", 1_000_000, (fact,) * 20))
    content = command[5]
    assert isinstance(content, bytes)
    assert len(content) < 20 * 303 + 41
    assert msgspec.msgpack.decode(content)[0] == "facts1", "who reads it knows its version"
