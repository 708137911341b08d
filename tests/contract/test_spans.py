"""The span of a review: whose child it is, what it says, and what it never costs."""

import json
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from tests.collector import Collector, collecting
from tests.contract.service import Running, serving
from tests.reviews import clobbered
from tests.waiting import patiently, until
from webhook.telemetry.spans import ExportedSpans, exporting_spans

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
NOBODY = "http://127.0.0.1:1"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as started:
        yield started


@asynccontextmanager
async def traced(
    folder, endpoint: str, monkeypatch, **variables: str
) -> AsyncIterator[tuple[Running, ExportedSpans]]:
    given = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_BSP_SCHEDULE_DELAY": "50"}
    for name, value in {**given, **variables}.items():
        monkeypatch.setenv(name, value)
    counted: list[Callable[[], object]] = []

    class Counted:
        def counts(self, _, read):
            counted.append(read)

    async with exporting_spans(Counted()) as spans:
        assert spans is not None
        assert counted == [spans.counts]
        async with serving(folder, spans=spans) as run:
            yield run, spans


def parent(*, sampled: bool) -> dict[str, str]:
    return {"traceparent": f"00-{TRACE}-{PARENT}-{'01' if sampled else '00'}"}


async def test_a_span_continues_the_trace_of_the_client(tmp_path, monkeypatch, collector):
    before = time.time_ns()
    async with traced(tmp_path, collector.http_endpoint, monkeypatch) as (run, _):
        body = json.dumps(clobbered()).encode()
        await run.post(body, "/mutate", **parent(sampled=True))
        await until(lambda: collector.spans("genguard"))
    (span,) = collector.spans("genguard")
    assert (span.trace, span.parent, span.name) == (TRACE, PARENT, "genguard mutate")
    assert before <= span.start < span.end <= time.time_ns()
    assert span.attributes == {
        "genguard.phase": "mutate",
        "genguard.decision": "patched",
        "genguard.edits": 1,
        "genguard.operation": "UPDATE",
        "genguard.resource": "deployments.apps",
        "genguard.subresource": "status",
        "genguard.name": "thing",
        "genguard.dry_run": False,
        "k8s.namespace.name": "default",
        "http.response.status_code": 200,
    }


async def test_a_client_that_does_not_sample_gets_no_span(tmp_path, monkeypatch, collector):
    async with traced(tmp_path, collector.http_endpoint, monkeypatch) as (run, _):
        body = json.dumps(clobbered()).encode()
        await run.post(body, **parent(sampled=False))
        await run.post(body, "/outcome", **parent(sampled=True))
        await until(lambda: collector.spans("genguard"))
    assert [one.name for one in collector.spans("genguard")] == ["genguard outcome"]


async def test_the_sampler_is_that_of_the_environment(tmp_path, monkeypatch, collector):
    sampler = {"OTEL_TRACES_SAMPLER": "parentbased_always_off", "OTEL_SERVICE_NAME": "mine"}
    async with traced(tmp_path, collector.http_endpoint, monkeypatch, **sampler) as (run, _):
        body = json.dumps(clobbered()).encode()
        await run.post(body)  # without a parent
        await run.post(body, **parent(sampled=True))
        await until(lambda: collector.spans("mine"))
    assert [one.parent for one in collector.spans("mine")] == [PARENT]


@pytest.mark.parametrize(
    "header", ["", "00-zz-11-01", f"00-{'0' * 32}-{PARENT}-01", "\u00e9", "00-" + "a" * 4000]
)
async def test_a_header_that_is_no_trace_context_begins_a_trace(
    tmp_path, monkeypatch, collector, header
):
    async with traced(tmp_path, collector.http_endpoint, monkeypatch) as (run, _):
        answer = await run.post(
            json.dumps(clobbered()).encode(), traceparent=header, tracestate="x=" + "y" * 4000
        )
        assert answer.status == 200
        await until(lambda: collector.spans("genguard"))
    (span,) = collector.spans("genguard")
    assert span.parent == ""


async def test_a_review_that_is_refused_has_a_span_with_the_reason(
    tmp_path, monkeypatch, collector
):
    async with traced(tmp_path, collector.http_endpoint, monkeypatch) as (run, _):
        body = json.dumps(clobbered()).encode()
        await run.post(b"{", "/mutate", **parent(sampled=True))
        answer = await run.post(body, "/intent", Content_Type="text/plain")
        assert answer.status == 415
        await run.post(b"", "/nowhere", **parent(sampled=True))
        await until(lambda: len(collector.spans("genguard")) == 2)
    told = {
        one.name: (one.attributes["genguard.decision"], one.attributes["http.response.status_code"])
        for one in collector.spans("genguard")
    }
    assert told == {"genguard mutate": ("undecodable", 400), "genguard intent": ("rejected", 415)}


async def test_nothing_of_the_object_is_in_a_span(tmp_path, monkeypatch, collector):
    asked = clobbered()
    asked["request"]["object"]["spec"] = {"password": "kingfisher"}
    asked["request"]["object"]["metadata"]["annotations"] = {"note": "kingfisher"}
    asked["request"]["userInfo"]["extra"] = {"token": ["kingfisher"]}
    async with traced(tmp_path, collector.http_endpoint, monkeypatch) as (run, _):
        await run.post(json.dumps(asked).encode())
        await until(lambda: collector.spans("genguard"))
    assert b"kingfisher" not in collector.raw
    assert b"deployments.apps" in collector.raw


async def test_a_name_that_is_no_text_does_not_cost_the_spans_beside_it(
    tmp_path, monkeypatch, collector
):
    asked = clobbered()
    asked["request"]["name"] = "\ud800\x1b[2J" + "n" * 5000
    async with traced(tmp_path, collector.http_endpoint, monkeypatch) as (run, spans):
        await run.post(json.dumps(asked).encode())
        await run.post(json.dumps(clobbered()).encode())
        await until(lambda: len(collector.spans("genguard")) == 2)
        assert spans.counts()[1] == (("failed",), 0)
    names = [one.attributes.get("genguard.name", "") for one in collector.spans("genguard")]
    assert all(name.isprintable() and len(name) < 300 for name in names)


async def test_without_a_collector_answers_go_on_and_failures_are_counted(
    tmp_path, monkeypatch, caplog
):
    variables = {"OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
    async with traced(tmp_path, NOBODY, monkeypatch, **variables) as (run, spans):
        body = json.dumps(clobbered()).encode()
        for _ in range(3):
            assert (await run.post(body)).status == 200
        await until(lambda: dict(spans.counts())["failed",] > 0)
    assert dict(spans.counts())["sent",] == 0
    assert [one.message for one in caplog.records if one.name == "genguard"].count(
        "spans not exported"
    ) == 1
    assert not [one for one in caplog.records if one.name.startswith("opentelemetry")]


async def test_a_collector_that_hangs_costs_a_full_queue_and_no_answer(tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as hanging:  # it accepts, and never answers
        endpoint = f"http://127.0.0.1:{hanging.getsockname()[1]}"
        variables = {
            "OTEL_BSP_MAX_QUEUE_SIZE": "8",
            "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "4",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "3600",
        }
        async with traced(tmp_path, endpoint, monkeypatch, **variables) as (run, spans):
            body = json.dumps(clobbered()).encode()
            async with patiently():  # each export would take longer
                for _ in range(40):
                    assert (await run.post(body)).status == 200
            counts = dict(spans.counts())
            # 4 are with the exporter, 8 wait; timing may let a batch of less go first.
            assert counts["dropped",] >= 40 - 4 - 8
            async with patiently():
                await spans.close()
