"""What is on its way is kept for as long as others may have to be told again, and no longer."""

import msgspec

from genguard.detection.detection import Detection
from webhook.store import stream as module
from webhook.store.seal import Plain
from webhook.store.stream import (
    KEPT_SECONDS,
    MOST_BYTES,
    MOST_SECONDS,
    Facts,
    Found,
    Message,
    Stream,
    StreamConsumer,
    StreamProducer,
)


class Sender:
    def __init__(self) -> None:
        self.now = 100.0
        self.sent: list[Message] = []
        self.producer = StreamProducer(
            self._publish, Stream("p:", Plain()), b"me", lambda: self.now
        )

    def _publish(self, command) -> None:
        self.sent.append(Stream("p:", Plain()).decode(command[5]))

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


def test_it_is_time_to_send_when_a_message_is_full():
    sender = Sender()
    assert not sender.producer.put(b"x" * (MOST_BYTES - 1))
    assert sender.producer.put(b"x")


def test_findings_go_in_as_many_messages_as_it_takes():
    sender = Sender()
    rows = [(str(number), b"x" * (MOST_BYTES // 2)) for number in range(5)]
    sender.producer.send_findings(rows)
    assert [type(one) for one in sender.sent] == [Found] * 3
    assert [row for one in sender.sent if isinstance(one, Found) for row in one.rows] == rows
    assert sender.producer.has_unconfirmed_findings
    for number in (1, 2, 3):
        sender.producer.confirm(number)
    assert not sender.producer.has_unconfirmed_findings


def test_what_came_back_is_sent_again_for_a_while_and_the_rest_until_it_comes_back():
    sender = Sender()
    sender.send(b"one")
    sender.send(b"two")
    sender.producer.confirm(1)
    assert sender.again() == [1, 2]
    sender.now += KEPT_SECONDS + 1
    assert sender.again() == [2]
    assert sender.producer.dropped == 0


def test_what_never_came_back_is_given_up_and_counted():
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


class Judged(Detection):
    """In place of a Detection: it notes in which order it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[bytes] = []

    def see_encoded(self, fact: bytes) -> None:
        self.calls.append(fact)

    def end_wait(self) -> None:
        self.calls.append(b"end of the wait")


async def test_the_wait_for_other_facts_ends_at_one_place_of_the_stream_for_every_replica():
    """Each judges the same, whenever it reads: after a loss some read what others sent later."""
    sender, stream = Sender(), Stream("p:", Plain())
    sender.send(b"one")
    sender.producer.send_end_of_wait()
    sender.send(b"two")
    for replica in (b"me", b"other"):
        judged = Judged()
        consumer = StreamConsumer(judged, stream, replica, lambda number: None)
        for message in sender.sent:
            await consumer.take(f"1-{message.number}".encode(), stream.append(message)[5])
        assert judged.calls == [b"one", b"end of the wait", b"two"]


async def test_of_replicas_that_ended_long_ago_nothing_is_remembered(monkeypatch):
    monkeypatch.setattr(module, "_MOST_SENDERS", 2)
    stream = Stream("p:", Plain())
    consumer = StreamConsumer(Detection(), stream, b"me", lambda number: None)

    async def take(sender: bytes, number: int) -> int:
        command = stream.append(Facts(sender, number, ()))
        await consumer.take(f"1-{number}".encode(), command[5])
        return consumer.counts["missed"]

    assert await take(b"first", 1) == 0
    assert await take(b"first", 4) == 2, "2 and 3 are missing"
    for number in range(5):
        assert await take(f"restarted {number}".encode(), 1) == 2
    assert await take(b"first", 9) == 2, "it is as unknown as at its first message"


def test_the_lag_is_that_of_the_oldest():
    sender = Sender()
    assert sender.producer.lag() == 0.0
    sender.send(b"one")
    sender.now += 2.0
    sender.send(b"two")
    assert sender.producer.lag() == 2.0
    sender.producer.confirm(1)
    sender.producer.confirm(2)
    assert sender.producer.lag() == 0.0


def test_a_message_is_small_beside_what_is_in_it():
    fact = b"x" * 300
    command = Stream("p:", Plain()).append(Facts(b"12345678", 1_000_000, (fact,) * 20))
    assert len(command[5]) < 20 * 303 + 40
    assert msgspec.msgpack.decode(command[5])[0] == "facts1", "who reads it knows its version"
