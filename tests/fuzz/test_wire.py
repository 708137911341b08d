"""Random pipelines, for a short time; `make fuzz TIME=3600` is the long form."""

import pytest

from tests.event_loops import EVENT_LOOPS
from tools.fuzz.wire import LONGEST, fuzz, make_exchange

SECONDS = 10.0


def test_exchanges_are_the_same_each_time_and_of_every_form():
    some = [make_exchange(seed) for seed in range(300)]
    assert some == [make_exchange(seed) for seed in range(300)]
    assert {len(one.uids) for one in some} >= {1, 2, 3}
    assert 100 < max(len(one.uids) for one in some) <= LONGEST
    assert {one.is_last for one in some} == {True, False}
    sent = [b"".join(one.pieces) for one in some]
    for form in (b"Transfer-Encoding: chunked", b"Upgrade: websocket", b"charset=utf-8"):
        assert any(form in one for one in sent)


@pytest.mark.parametrize("loop", EVENT_LOOPS)
async def test_each_answer_of_random_pipelines_is_that_of_its_request(loop):
    tried = await fuzz(loop, SECONDS, first=1)
    assert tried.answers > 100
