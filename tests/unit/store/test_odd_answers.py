"""A store that says what nobody asked for: the connection ends with a reason, and is made anew."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from tests.waiting import PATIENCE, patiently
from webhook.store.address import ValkeyAddress
from webhook.store.circuit_breaker import StoreLostError, answer_of
from webhook.store.client import open_pipeline, open_stream_client, subscribe

_REASON = "the store gave an answer of no known form"
_SUBSCRIBED = b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"

NO_ANSWERS = {
    "an unsolicited OK": b"+OK\r\n",
    "an unsolicited number": b":1\r\n",
    "an unsolicited nil": b"$-1\r\n",
    "an empty array": b"*0\r\n",
    "too few parts": b"*2\r\n$7\r\nmessage\r\n$1\r\nc\r\n",
    "too many parts": b"*4\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n$1\r\nx\r\n",
    "a message that is nil": b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$-1\r\n",
    "a message that is a number": b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n:7\r\n",
    "a message that is a list": b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n*1\r\n:7\r\n",
    "a number that is none": b":seven\r\n",
    "a length that is none": b"$seven\r\n",
    "arrays in arrays without end": b"*1\r\n" * 5_000,
}


@asynccontextmanager
async def store_that_says(*answers: bytes) -> AsyncIterator[ValkeyAddress]:
    """One answer for each time that something is sent; then it stays silent."""

    served: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await reader.read(65_536)
            writer.write(answer)
        await reader.read()
        writer.close()
        await writer.wait_closed()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(asyncio.create_task(serve(reader, writer)))

    async with await asyncio.start_server(begin, "127.0.0.1", 0) as server:
        yield ValkeyAddress("127.0.0.1", server.sockets[0].getsockname()[1])
        await asyncio.gather(*served, return_exceptions=True)


@pytest.mark.parametrize("answer", NO_ANSWERS.values(), ids=NO_ANSWERS)
async def test_a_listener_that_hears_no_message_ends_and_says_why(answer: bytes) -> None:
    """Copies that nobody calls back any more would be taken for good ones for ever."""
    heard: list[bytes] = []
    async with store_that_says(_SUBSCRIBED + answer) as address, patiently():
        assert await subscribe(address, b"c", lambda: None, heard.append) == _REASON
    assert heard == []


@pytest.mark.parametrize(
    "answer",
    [b":1\r\n:2\r\n", b":seven\r\n", b"$seven\r\n", b"*1\r\n" * 5_000],
    ids=["one too many", "a number that is none", "a length that is none", "arrays in arrays"],
)
async def test_a_line_that_gets_another_answer_than_it_asked_for_ends_and_says_why(
    answer: bytes,
) -> None:
    async with store_that_says(answer) as address, patiently():
        pipeline = await open_pipeline(address)
        try:
            pipeline.send(("GET", "a"), lambda _: None)
            assert await pipeline.ended == _REASON
            with pytest.raises(StoreLostError, match=_REASON):
                await answer_of(pipeline, ("GET", "b"), PATIENCE)
        finally:
            await pipeline.close()


_READS: dict[str, Callable] = {
    "read": lambda reader: reader.read(b"k", b"0-0", wait=False),
    "last": lambda reader: reader.last(b"k"),
    "get": lambda reader: reader.get(b"k"),
}


@pytest.mark.parametrize("asked", _READS.values(), ids=_READS)
@pytest.mark.parametrize(
    "answer",
    [
        b":7\r\n",
        b"*1\r\n:7\r\n",
        b"*1\r\n*2\r\n$1\r\nk\r\n*1\r\n*2\r\n$3\r\n1-0\r\n*1\r\n$1\r\nm\r\n",  # no value
        b"*1\r\n*2\r\n$1\r\nk\r\n*1\r\n*2\r\n$1\r\nx\r\n*2\r\n$1\r\nm\r\n$1\r\nv\r\n",  # no id
        b"*1\r\n*2\r\n$1\r\nk\r\n*1\r\n*2\r\n:1\r\n*2\r\n$1\r\nm\r\n$1\r\nv\r\n",
        b"*1\r\n*2\r\n$1\r\nk\r\n*1\r\n*2\r\n$3\r\n1-0\r\n*2\r\n$1\r\nm\r\n:7\r\n",
        b":seven\r\n",
        b"*1\r\n" * 5_000,
    ],
)
async def test_a_reader_that_gets_no_messages_is_lost(asked: Callable, answer: bytes) -> None:
    async with store_that_says(answer, answer) as address, patiently():
        reader = await open_stream_client(address)
        try:
            with pytest.raises(StoreLostError, match=_REASON):
                await asked(reader)
        finally:
            await reader.close()
