"""The bench runs, believes no wrong answer, and reports what it says it reports. No timings."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from genguard.admission.review import Phase
from genguard.detection.detection import Detection
from genguard.detection.observation import encode_observation
from genguard.detection.reduce import Reviewed
from genguard.review import review
from tests.controlplane.plane import ControlPlane
from tools.bench.__main__ import Plan, main
from tools.bench.bodies import STATUS
from tools.bench.connection import Response
from tools.bench.glance import Glance
from tools.bench.growth import GROWTHS, Growth, Step
from tools.bench.lives import CALM, LIVES
from tools.bench.machine import commit
from tools.bench.profile import dependencies
from tools.bench.publish import PAGES, with_text
from tools.bench.report import growth_table, markdown, through_table
from tools.bench.results import FOLDER, Results, read_results
from tools.bench.rounds import run_rounds
from tools.bench.running import REPOSITORY
from tools.bench.scenarios import Effort, WrongAnswersError
from tools.bench.servers import GENGUARD, SERVERS, Answers, Server, servers_named
from tools.bench.template import Filled
from tools.bench.through import NOTHING, SETTINGS, THROUGH_KEYS, believe, run_through

TINY = Effort(repeats=1, seconds=0.05, warm_up=0.02, patient=False)


def test_every_server_answers_right_and_everything_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--into", str(tmp_path)], Plan(TINY)) == 0, capsys.readouterr().err
    results = read_results(tmp_path)
    assert set(results.servers) == {one.name for one in SERVERS if one.is_available}
    wanted = {"cpu_us", "rate", "p50_ms_500", "p99_ms_1000", "start_s", "idle_mb", "after_mb"}
    for found in results.servers.values():
        assert wanted <= found.keys()
        assert all(number > 0 for numbers in found.values() for number in numbers)
    assert {
        "cores",
        "cpu",
        "python",
        "aiohttp",
        "msgspec",
        "controller-runtime",
    } <= results.machine.keys()
    assert results.commit == commit()
    printed = capsys.readouterr().out
    document = (tmp_path / "RESULTS.md").read_text()
    for text in ("CPU µs", "x floor", "p50 / p99 ms at 1,000/s", "RSS MB", *results.servers):
        assert text in printed
        assert text in document
    assert document == markdown(results)


def test_a_growth_is_measured_at_each_step() -> None:
    steps = (
        Step("one", {"reviews": STATUS, "objects": 1}),
        Step("many", {"objects": 40, "reviews": STATUS, "fill": 40}),
    )
    numbers = ("cpu_us", "rate", "rss_mb", "remembered", "left_out")
    growth = Growth("tried", "Tried", "step", "Legend.", steps, numbers)
    (genguard,) = (one for one in servers_named([GENGUARD]) if one.name == GENGUARD)
    found = run_rounds([genguard], (growth,), replace(TINY, patient=True), lambda _: None)[GENGUARD]
    assert set(growth.keys) <= found.keys()
    assert found["many/remembered"][0] == found["one/remembered"][0] + 39
    # More writes than wait for an outcome at once are left out; the server counts on.
    assert 0 <= found["one/left_out"][0] <= found["many/left_out"][0]
    results = Results("", {}, "", {}, {"tried": {GENGUARD: found}})
    lines = growth_table(growth, results).splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:]] == ["one", "many"]


def test_an_observation_is_about_as_large_as_the_page_reckons_with() -> None:
    lives, detection, deps = LIVES[CALM](lambda phase: phase.value), Detection(), dependencies()
    sizes = []
    for number in range(3_000):
        filled = lives.next("a")
        phase = Phase(filled.head.split()[1].partition(b"?")[0].decode())
        result = review(filled.body, phase, deps, number * 0.01).result
        reviewed = Reviewed(result.request, result.prediction, result.status)
        sizes.append(len(encode_observation(detection.observe(phase, reviewed, number * 0.01))))
    assert 1_050 < sum(sizes) / len(sizes) < 1_250
    assert "at 1,150 bytes a review" in (REPOSITORY / "docs" / "performance.md").read_text("utf-8")


def test_writes_through_the_api_server_are_all_seen(apiserver: ControlPlane) -> None:
    samples = run_through(apiserver, TINY, lambda _: None)
    assert list(samples) == [one.name for one in SETTINGS]
    for found in samples.values():
        assert found.keys() == {key for key, *_ in THROUGH_KEYS}
        assert all(number > 0 for numbers in found.values() for number in numbers)
    lines = through_table(Results("", {}, "", {}, {}, samples)).splitlines()
    assert len(lines) == 2 + len(SETTINGS)
    assert ["(" in line for line in lines[2:]] == [one.name != NOTHING for one in SETTINGS]


def test_a_webhook_that_was_not_called_is_not_measured() -> None:
    called = {"z-mutate.bench.genguard.io": 5.0}
    believe(SETTINGS[1], 4, {}, called)
    with pytest.raises(WrongAnswersError, match="called 2 times for 3 writes"):
        believe(SETTINGS[1], 4, {"z-mutate.bench.genguard.io": 3.0}, called)


def test_a_server_to_compare_with_has_nothing_of_detection_in_it() -> None:
    code = "import sys, tools.bench.constant; print('genguard.detection' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_wrong_answer_ends_the_run() -> None:
    floor = servers_named(["floor"])[0]
    pretender = Server("pretender", "", floor.command, Answers.COUNTED)
    with pytest.raises(WrongAnswersError, match="uid"):
        run_rounds([pretender], (), TINY, lambda _: None)


def test_what_is_shown_is_what_was_recorded() -> None:
    results = read_results()
    assert (FOLDER / "RESULTS.md").read_text("utf-8") == markdown(results)
    for path, told in PAGES.items():
        page = path.read_text("utf-8")
        assert with_text(page, told(results)) == page
    assert results.growth.keys() <= {one.key for one in GROWTHS}
    assert results.through.keys() == {one.name for one in SETTINGS}
    with pytest.raises(ValueError, match="page"):
        with_text("# genguard", "numbers")


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
