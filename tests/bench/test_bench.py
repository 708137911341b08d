"""The bench runs, believes no wrong answer, and reports what it says it reports. No timings."""

import gzip
import json
import re
from pathlib import Path

import pytest

from tests.bench.__main__ import main
from tests.bench.connection import BrokenConnectionError, Response, whole_response
from tests.bench.corpus import FILE, Recorded, mean_bytes, read_corpus, write_corpus
from tests.bench.glance import Glance
from tests.bench.report import table
from tests.bench.rounds import Samples, run_rounds
from tests.bench.scenarios import Column, Effort, WrongAnswersError, percentile
from tests.bench.selection import TooFewError, select
from tests.bench.servers import SERVERS, Answers, Server, servers_named
from tests.bench.servers.plain import mutated
from tests.bench.template import Filled, make_template, make_templates
from tests.bench.tracking import WRITES
from tests.bench.tracking import main as measure_tracking
from webhook.admission.review import Phase

TINY = Effort(repeats=1, seconds=0.1, warm_up=16)


def test_every_server_answers_right_and_has_every_column(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "bench.json"
    assert main(["--json", str(written)], TINY) == 0, capsys.readouterr().err
    document = json.loads(written.read_text())
    assert set(document["servers"]) == {one.name for one in SERVERS if one.is_available}
    wanted = {"cpu_us", "rate", "p50_ms", "p99_ms", "idle_mb", "after_mb"}
    for found in document["servers"].values():
        assert wanted <= found.keys()
        assert all(number["median"] > 0 for number in found.values())
        assert found["cpu_us"]["ratioToFloor"] > 0
    assert document["servers"]["floor"]["cpu_us"]["ratioToFloor"] == 1
    assert {"cores", "cpu", "python", "aiohttp", "msgspec"} <= document["machine"].keys()
    printed = capsys.readouterr().out
    for text in ("CPU us", "x floor", "p99 ms", "RSS MB", *document["servers"]):
        assert text in printed


def test_a_wrong_answer_ends_the_run() -> None:
    floor = servers_named(["floor"])[0]
    pretender = Server("pretender", "", floor.command, Answers.JUDGED)
    with pytest.raises(WrongAnswersError, match="uid"):
        run_rounds([pretender], (), TINY, lambda _: None)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (b"500", b'{"response":{"uid":"11","allowed":true}}'),
        (b"200", b'{"response":{"uid":"22","allowed":true}}'),
    ],
    ids=["status", "uid"],
)
def test_a_glance_sees_a_wrong_answer(status: bytes, body: bytes) -> None:
    glance = Glance()
    asked = Filled(b"", b"", b"11")
    glance(asked, Response(b"200", b'{"response":{"uid":"11","allowed":true}}'), 0.1)
    assert glance.wrong == []
    glance(asked, Response(status, body), 0.1)
    assert len(glance.wrong) == 1


def test_the_corpus_is_what_it_should_be() -> None:
    corpus = read_corpus()
    assert 40 <= len(corpus) <= 60
    assert 8_200 <= mean_bytes(corpus) <= 8_600
    assert all(3_000 <= len(one.body) <= 15_000 for one in corpus)
    assert {one.write for one in corpus} == {"CREATE", "UPDATE", "UPDATE status", "DELETE"}
    requests = [json.loads(one.body)["request"] for one in corpus if one.subresource]
    assert any(mutated(one) != one["object"] for one in requests), "nothing was cleared"
    assert FILE.stat().st_size < 300_000
    text = gzip.decompress(FILE.read_bytes()).decode()
    names = {*re.findall(r'"nodeName":"([^"]*)"', text)}
    assert names <= {"node-0", "node-1", "node-2"}
    for one in corpus:
        assert json.loads(one.body)["kind"] == "AdmissionReview"


def test_a_corpus_that_is_written_is_read_back(tmp_path: Path) -> None:
    corpus = read_corpus()
    path = tmp_path / "again.ndjson.gz"
    write_corpus(corpus, path)
    assert read_corpus(path) == corpus
    assert path.read_bytes() == FILE.read_bytes()


def test_each_request_is_a_new_one_of_the_same_length() -> None:
    for template in make_templates(read_corpus(), "/mutate"):
        first, second = template.fill(1), template.fill(2)
        assert len(first.body) == len(second.body)
        assert f"Content-Length: {len(first.body)}\r\n".encode() in first.head
        one, two = json.loads(first.body)["request"], json.loads(second.body)["request"]
        assert one["uid"] == first.uid.decode() != two["uid"]
        if one["oldObject"] is not None:
            versions = [each["oldObject"]["metadata"]["resourceVersion"] for each in (one, two)]
            assert versions[0] != versions[1]


def test_a_review_without_a_uid_is_no_template() -> None:
    with pytest.raises(ValueError, match="uid"):
        make_template(Recorded("", Phase.MUTATE, b"{}", "CREATE", ""), "/mutate")


@pytest.mark.parametrize("cut", [10, 60, 76])
def test_an_answer_is_whole_only_at_its_end(cut: int) -> None:
    content = (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\ncontent-length: 7\r\n\r\n{}     "
    )
    assert whole_response(content) == Response(b"200", b"{}     ")
    assert whole_response(content[:cut]) is None


@pytest.mark.parametrize(
    "content",
    [b"HTTP/1.1 200 OK\r\n\r\n{}", b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{}"],
    ids=["no length", "too long"],
)
def test_an_answer_without_an_end_is_refused(content: bytes) -> None:
    with pytest.raises(BrokenConnectionError):
        whole_response(content)


def test_a_selection_meets_its_mean_or_says_why_not() -> None:
    recorded = [
        Recorded("", Phase.MUTATE, b" " * size, "CREATE", "") for size in range(3_000, 13_000, 100)
    ]
    chosen = select(recorded, {"CREATE": 10}, mean=6_000)
    assert len(chosen) == 10
    assert abs(mean_bytes(chosen) - 6_000) <= 50
    with pytest.raises(TooFewError, match="DELETE"):
        select(recorded, {"CREATE": 10, "DELETE": 1})
    with pytest.raises(TooFewError, match="mean"):
        select(recorded, {"CREATE": 99}, mean=4_000)


def test_the_table_shows_median_spread_and_ratio() -> None:
    columns = (Column("cpu_us", "CPU us", compared=True), Column("rate", "req/s", digits=0))
    values = {
        "floor": {"cpu_us": [50.0, 40.0, 45.0], "rate": [3.0, 1.0, 2.0]},
        "other": {"cpu_us": [75.0, 80.0, 90.0], "rate": [1.0, 1.0, 1.0]},
    }
    lines = [line.split() for line in table(Samples(columns, values)).splitlines()]
    assert lines[0] == ["server", "CPU", "us", "x", "floor", "req/s"]
    assert lines[1] == ["floor", "45.0", "±5.0", "1.00", "2", "±1"]
    assert lines[2] == ["other", "80.0", "±7.5", "2.00", "1", "±0"]


def test_tracking_is_measured_for_each_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert measure_tracking(["--objects", "300", "--updates", "100"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    for kind, _ in WRITES:
        (numbers,) = [row[1:] for row in rows if row[0] == kind.resource]
        assert len(numbers) == 6
        assert 200 < float(numbers[1]) < 1_024, "what Tracking bounds itself by"


def test_percentiles_are_nearest_ranks() -> None:
    assert percentile([1.0], 0.99) == 1.0
    assert percentile(list(range(100)), 0.5) == 50
    assert percentile(list(range(100)), 0.99) == 99


def test_an_unknown_server_is_named() -> None:
    with pytest.raises(ValueError, match="nobody"):
        servers_named(["nobody"])
