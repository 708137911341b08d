"""Every hostile body, through the pipeline and over TLS: answered, no 5xx, never shown."""

import gc
import json
from pathlib import Path

import pytest

from genguard.admission.review import Phase
from genguard.review import review
from genguard.review_setup import GenerationPatch, ReviewOptions
from tests.contract.hostile import ALLOWED, CANARY, GOOD, HOSTILE, Hostile
from tests.contract.service import serving
from tests.reviews import make_dependencies


def check(hostile: Hostile, status: int, body: bytes) -> None:
    """200 for what is allowed, 400 with the code that is expected for the rest; no canary."""
    answer = json.loads(body)
    if hostile.code == ALLOWED:
        assert status == 200, answer
        assert answer["response"]["allowed"] is True
    else:
        assert (status, answer["error"]) == (400, hostile.code)
        assert answer.keys() == {"error", "field", "message"}
        assert len(body) < 500
    assert CANARY not in body.decode()


@pytest.mark.parametrize("phase", Phase)
def test_the_pipeline_answers_it(phase, subtests):
    for hostile in HOSTILE:
        dependencies = make_dependencies(generation_patch=GenerationPatch.ALWAYS)
        with subtests.test(hostile.name):
            reply = review(hostile.body, phase, dependencies, 0.0)
            check(hostile, reply.status, reply.body)


async def test_the_server_answers_each_on_one_connection_and_logs_nothing_of_it(
    tmp_path, logged, subtests
):
    """A 400 is an answer like any other: the API server keeps its connection."""
    options = ReviewOptions(generation_patch=GenerationPatch.ALWAYS)
    async with serving(tmp_path, options=options) as run:
        wire = await run.connect()
        for hostile in HOSTILE:
            with subtests.test(hostile.name):
                answer = await wire.post(hostile.body)
                check(hostile, answer.status, answer.body)
                assert not answer.closes
                assert (await wire.post(GOOD.encode())).status == 200
    text = logged()
    assert CANARY not in text
    assert all(len(line) < 5_000 for line in text.splitlines())


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


async def test_memory_does_not_grow_with_what_was_sent(running):
    rows = [hostile for hostile in HOSTILE if len(hostile.body) > 100_000]
    wire = await running.connect()
    before = 0
    for turn in range(4):
        for hostile in rows:
            await wire.post(hostile.body, "/intent")
            await wire.post(hostile.body, "/mutate")
        gc.collect()
        if turn == 0:
            before = _resident_bytes()  # what buffers and caches need is there by now
    assert _resident_bytes() - before < 48 * 1024 * 1024
