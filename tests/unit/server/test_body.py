"""The budget of bytes, and the deadline that the API server asks for."""

import asyncio

import pytest

from webhook.server.body import BadRequestError, Bodies, OverloadedError, timeout_of
from webhook.server.limits import Limits


@pytest.mark.parametrize(
    ("path", "seconds"),
    [
        ("/mutate?timeout=5s", 5),
        ("/mutate?timeout=30s", 30),
        ("/mutate?a=b&timeout=10s", 10),
        ("/mutate?timeout=0s", 0),
        ("/mutate", None),
        ("/mutate?timeout=5", None),
        ("/mutate?timeout=5m", None),
        ("/mutate?timeout=s", None),
        ("/mutate?timeout=-5s", None),
        ("/mutate?timeout=1.5s", None),
        ("/mutate?timeout=٣s", None),
        (f"/mutate?timeout={'9' * 5_000}s", None),
        ("/mutate?timeouts=5s", None),
    ],
)
def test_the_api_servers_own_timeout_is_read(path, seconds):
    assert timeout_of(path) == seconds


async def test_who_has_been_read_longest_is_rejected_and_its_bytes_are_given_back_once():
    bodies, deadlines = Bodies(10), [asyncio.timeout(60) for _ in range(3)]
    with pytest.raises(TimeoutError):
        async with deadlines[0]:
            with bodies.read(deadlines[0]) as older, bodies.read(deadlines[1]) as newer:
                bodies.grow(older, 6)
                bodies.grow(newer, 4)
                assert not older.is_rejected
                bodies.grow(newer, 6)
                assert (older.is_rejected, newer.is_rejected) == (True, False)
                with pytest.raises(OverloadedError):
                    bodies.grow(older, 1)
                await asyncio.sleep(60)
    with bodies.read(deadlines[2]) as last:
        bodies.grow(last, 10)
        with pytest.raises(OverloadedError):
            bodies.grow(last, 1)


def test_slow_senders_together_leave_room_below_the_memory_limit_of_the_deployment():
    assert Limits().body_bytes_in_flight <= 64 * 1024 * 1024


def test_every_refusal_of_a_request_is_a_4xx_with_a_code_of_its_own():
    kinds = BadRequestError.__subclasses__()
    assert {kind.status for kind in kinds} == {408, 413, 415, 429}
    assert len({kind.code for kind in kinds}) == len(kinds)
