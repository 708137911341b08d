"""The bench runs, believes no wrong answer, and reports what it says it reports. No timings."""

import gzip
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from genguard.admission.review import Phase
from genguard.detection.correlate import SECONDS_WITHOUT_OUTCOMES
from genguard.detection.detection import Detection
from genguard.detection.fact import encode_fact
from genguard.detection.reduce import Reviewed
from genguard.review import review
from tests.controlplane.plane import ControlPlane
from tools.bench.__main__ import Plan, main
from tools.bench.bodies import JUDGED_ALONE, REORDERED, REVIEWS, SIZES, STATUS
from tools.bench.bodies import RECORDED as RECORDED_REVIEWS
from tools.bench.check import ATTEMPTS, check, regressions
from tools.bench.connection import BrokenConnectionError, Response, whole_response
from tools.bench.corpus import FILE, Recorded, mean_bytes, read_corpus, write_corpus
from tools.bench.glance import Glance
from tools.bench.growth import Growth, Step
from tools.bench.growths import GROWTHS
from tools.bench.lives import CALM, LIVES, STORM, STORM_OBJECTS
from tools.bench.machine import commit
from tools.bench.others import OTHERS, run_others
from tools.bench.pauses import main as measure_pauses
from tools.bench.plot import GROWN, PANELS, growth_plot, plot
from tools.bench.profile import dependencies
from tools.bench.publish import PAGES, with_text
from tools.bench.report import (
    compared_table,
    growth_table,
    heading,
    main_table,
    markdown,
    start_table,
    through_table,
)
from tools.bench.results import FOLDER, Results, read_results, write_results
from tools.bench.rounds import Samples, run_rounds
from tools.bench.running import REPOSITORY
from tools.bench.scenarios import Effort, WrongAnswersError, percentile
from tools.bench.selection import TooFewError, select
from tools.bench.servers import (
    GENGUARD,
    QUIET_APPLICATION,
    SERVERS,
    Answers,
    Server,
    servers_named,
)
from tools.bench.servers.two_rules import mutated
from tools.bench.start import COMMANDS, WALL_S, run_start
from tools.bench.template import Filled, make_template, make_templates
from tools.bench.through import (
    COMPARISONS,
    NOTHING,
    P50,
    RATE,
    SETTINGS,
    THROUGH_KEYS,
    believe,
    run_through,
)
from tools.bench.tracking import WRITES
from tools.bench.tracking import main as measure_tracking

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
        "kopf",
        "controller-runtime",
    } <= results.machine.keys()
    assert results.commit == commit()
    printed = capsys.readouterr().out
    document = (tmp_path / "RESULTS.md").read_text()
    for text in ("CPU µs", "x floor", "p50 / p99 ms at 1,000/s", "RSS MB", *results.servers):
        assert text in printed
        assert text in document
    assert document == markdown(results)
    assert (tmp_path / "results.svg").read_text() == plot(results)


def test_a_growth_is_measured_at_each_step() -> None:
    steps = (
        Step("fresh", {"reviews": "2 KB", "objects": 1, "connections": 1, "fresh": True}, 2.0),
        Step("many", {"objects": 40, "reviews": STATUS, "fill": 40}, 8.0),
    )
    numbers = ("cpu_us", "us_per_kb", "rate", "rss_mb", "remembered", "left_out")
    growth = Growth("tried", "Tried", "step", "Legend.", steps, numbers, (GENGUARD,))
    (genguard,) = (one for one in servers_named([GENGUARD]) if one.name == GENGUARD)
    found = run_rounds([genguard], (growth,), replace(TINY, patient=True), lambda _: None)[GENGUARD]
    assert set(growth.keys) <= found.keys()
    assert found["fresh/us_per_kb"][0] == pytest.approx(found["fresh/cpu_us"][0] / 2)
    assert found["many/remembered"][0] == found["fresh/remembered"][0] + 40
    assert found["many/left_out"] == [0]
    results = Results("", {}, "", {}, {"tried": {GENGUARD: found}})
    lines = growth_table(growth, results).splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:]] == ["fresh", "many"]


def test_calm_and_storm_are_shown_as_ratios_to_a_server_that_does_nothing() -> None:
    def lives(calm: list[float], storm: list[float]) -> dict[str, list[float]]:
        return {"calm/cpu_us": calm, "storm/cpu_us": storm}

    found = {
        GENGUARD: lives([100.0, 80.0, 90.0], [120.0, 150.0, 120.0]),
        QUIET_APPLICATION.name: lives([50.0, 50.0, 50.0], [60.0, 60.0, 60.0]),
    }
    growth = next(one for one in GROWTHS if one.key == "lives")
    head, _, calm, storm = growth_table(
        growth, Results("", {}, "", {}, {growth.key: found})
    ).splitlines()
    cells = [row.split("|")[-2].strip() for row in (head, calm, storm)]
    assert cells == ["genguard x aiohttp, no access log", "1.80", "2.00"]


def test_a_fact_is_about_as_large_as_the_page_reckons_with() -> None:
    lives, detection, deps = LIVES[CALM](lambda phase: phase.value), Detection(), dependencies()
    sizes = []
    for number in range(3_000):
        filled = lives.next("a")
        phase = Phase(filled.head.split()[1].partition(b"?")[0].decode())
        verdict = review(filled.body, phase, deps, number * 0.01).verdict
        reviewed = Reviewed(verdict.request, verdict.prediction, verdict.status)
        sizes.append(len(encode_fact(detection.fact(phase, reviewed, number * 0.01))))
    assert 250 < sum(sizes) / len(sizes) < 350
    assert "at 300 bytes a review" in (REPOSITORY / "docs" / "performance.md").read_text("utf-8")


def played(lives, connections: list[str], count: int) -> list[tuple[str, dict, str]]:
    """Connection, request and path of so many reviews; every connection asks in turn."""
    found = []
    for number in range(count):
        connection = connections[number % len(connections)]
        filled = lives.next(connection)
        path = filled.head.split()[1].partition(b"?")[0].decode()
        found.append((connection, json.loads(filled.body)["request"], path))
    return found


def old_version(request: dict) -> int:
    return int(request["oldObject"]["metadata"]["resourceVersion"])


def test_each_object_lives_its_recorded_life_in_order_on_one_connection() -> None:
    reviews = played(LIVES[CALM](lambda phase: f"/{phase}"), ["a", "b", "c"], 3_000)
    assert len({request["uid"] for _, request, _ in reviews}) == len(reviews)
    assert {path for *_, path in reviews} == {"/intent", "/mutate", "/outcome"}
    lives: dict[str, list[tuple[str, int]]] = {}
    for connection, request, _ in reviews:
        if request["oldObject"]:
            uid = request["oldObject"]["metadata"]["uid"]
            lives.setdefault(uid, []).append((connection, old_version(request)))
    assert len(lives) > 100
    for life in lives.values():
        assert len({connection for connection, _ in life}) == 1
        assert life == sorted(life)


def test_in_a_storm_so_many_objects_repeat_one_transition_in_three_phases() -> None:
    reviews = played(LIVES[STORM](lambda phase: f"/{phase}"), ["a"], 2 * 3 * STORM_OBJECTS)
    assert [path for *_, path in reviews[:3]] == ["/intent", "/mutate", "/outcome"]
    writes: dict[str, list[int]] = {}
    for _, request, _ in reviews:
        uid = request["object"]["metadata"]["uid"]
        writes.setdefault(uid, []).append(old_version(request))
    assert len(writes) == STORM_OBJECTS
    for first, *others in writes.values():
        assert others[:2] == [first, first]
        assert others[2] > first
        assert others[2:] == [others[2]] * 3


def test_writes_through_the_api_server_are_all_seen(apiserver: ControlPlane) -> None:
    samples = run_through(apiserver, TINY, lambda _: None)
    assert list(samples) == [one.name for one in SETTINGS]
    for found in samples.values():
        assert found.keys() == {key for key, *_ in THROUGH_KEYS}
        assert all(number > 0 for numbers in found.values() for number in numbers)
    lines = through_table(Results("", {}, "", {}, {}, samples)).splitlines()
    assert len(lines) == 2 + len(SETTINGS)
    assert ["(" in line for line in lines[2:]] == [one.name != NOTHING for one in SETTINGS]


def test_what_follow_leaves_registered_is_measured() -> None:
    called = {one.name: [it.path for it in one.registrations] for one in SETTINGS}
    assert called["follow, audit-only: outcome"] == ["/outcome"]
    assert called["follow, enforcing: mutate, outcome"] == ["/mutate", "/outcome"]
    assert called["another webhook, and go"] == ["/mutate", "/mutate"]
    assert called["another webhook, and follow: all three"][1:] == [
        "/intent",
        "/mutate",
        "/outcome",
    ]
    for one in COMPARISONS:
        assert {one.setting, one.to} <= called.keys()


def test_ratios_to_go_are_those_of_rounds() -> None:
    numbers = {NOTHING: ([1.0, 2.0], [900, 900]), "go": ([2.0, 4.0], [500.0, 600.0])}
    numbers["follow, audit-only: outcome"] = [1.5, 3.0], [750.0, 900.0]
    through = {name: {P50: p50, RATE: rate} for name, (p50, rate) in numbers.items()}
    _, _, first, second, third = compared_table(Results("", {}, "", {}, {}, through)).splitlines()
    assert [cell.strip() for cell in first.split("|")[2:6]] == [
        "1.50", "1.25 or more", "0.50", "0.80 or less",
    ]  # fmt: skip
    assert second.count(" - |") == third.count(" - |") == 2


def test_each_command_is_started_and_its_best_round_shown(apiserver: ControlPlane) -> None:
    samples = run_start(apiserver.kubeconfig, Effort(2, 0.0, 0.0), lambda _: None)
    assert {len(numbers) for found in samples.values() for numbers in found.values()} == {2}
    lines = start_table(Results("", {}, "", {}, {}, {}, samples)).splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:]] == [one.name for one in COMMANDS]
    best = min(samples["genguard version"][WALL_S])
    assert f" {best:.2f} | " in lines[4]


def test_a_command_that_fails_is_not_fast(tmp_path: Path) -> None:
    with pytest.raises(WrongAnswersError, match="genguard status exited with 1"):
        run_start(tmp_path / "none", Effort(1, 0.0, 0.0), lambda _: None)


def test_a_webhook_that_was_not_called_is_not_measured() -> None:
    called = {"z-mutate.bench.genguard.io": 5.0}
    believe(SETTINGS[1], 4, {}, called)
    with pytest.raises(WrongAnswersError, match="called 2 times for 3 writes"):
        believe(SETTINGS[1], 4, {"z-mutate.bench.genguard.io": 3.0}, called)


def test_what_genguard_puts_aside_is_waited_for() -> None:
    (genguard,) = (one for one in servers_named([GENGUARD]) if one.name == GENGUARD)
    assert genguard.puts_aside > SECONDS_WITHOUT_OUTCOMES


@pytest.mark.parametrize("name", ["floor", "application", "plain"])
def test_a_server_to_compare_with_has_nothing_of_detection_in_it(name: str) -> None:
    code = f"import sys, tools.bench.servers.{name}; print('genguard.detection' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_wrong_answer_ends_the_run() -> None:
    floor = servers_named(["floor"])[0]
    pretender = Server("pretender", "", floor.command, Answers.JUDGED)
    with pytest.raises(WrongAnswersError, match="uid"):
        run_rounds([pretender], (), TINY, lambda _: None)


def costs(floor: list[float], genguard: list[float], go: list[float]) -> Samples:
    found = {"floor": floor, "genguard": genguard, "go": go}
    return {name: {"cpu_us": values} for name, values in found.items()}


RECORDED = Results("", {}, "", costs([100.0, 90.0], [150.0, 180.0], [600.0, 640.0]))


@pytest.mark.parametrize(
    ("measured", "told"),
    [
        (costs([90.0], [150.0], [600.0]), []),
        (costs([45.0], [75.0], [300.0]), []),
        (costs([90.0, 900.0], [1500.0, 187.0], [600.0, 9.9e9]), []),
        (costs([90.0], [189.0], [760.0]), ["genguard / floor is 2.10; recorded is 1.67"]),
        (costs([200.0], [190.0], [600.0]), ["genguard / go is 0.32; recorded is 0.25"]),
        (costs([90.0], [300.0], [600.0]), ["genguard / floor", "genguard / go"]),
    ],
    ids=["as it was", "faster machine", "best rounds", "to the floor", "to Go", "to both"],
)
def test_a_ratio_may_be_a_quarter_worse_than_recorded(measured: Samples, told: list[str]) -> None:
    found = list(regressions(RECORDED, measured))
    assert len(found) == len(told)
    assert all(text in line for text, line in zip(told, found, strict=True))


def test_what_looks_worse_is_measured_again_before_it_is_believed() -> None:
    rounds = iter([costs([90.0], [999.0], [600.0]), costs([300.0], [150.0], [800.0])])
    assert check(RECORDED, lambda: next(rounds), lambda _: None) == []
    assert list(rounds) == []
    tried: list[int] = []

    def always() -> Samples:
        tried.append(1)
        return costs([90.0], [300.0], [600.0])

    assert len(check(RECORDED, always, lambda _: None)) == 2
    assert len(tried) == ATTEMPTS


def test_the_check_runs_servers_and_fails_for_what_was_cheaper_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = Results("", {}, "", costs([1.0], [1_000.0], [1.0]))
    write_results(results, tmp_path)
    assert main(["--check", "--into", str(tmp_path)], Plan(TINY)) == 0
    write_results(Results("", {}, "", costs([1_000.0], [1.0], [1.0])), tmp_path)
    capsys.readouterr()
    assert main(["--check", "--into", str(tmp_path)], Plan(TINY)) == 1
    assert "CPU of genguard / floor is" in capsys.readouterr().err


def test_what_is_shown_is_what_was_recorded() -> None:
    results = read_results()
    assert (FOLDER / "RESULTS.md").read_text("utf-8") == markdown(results)
    assert (FOLDER / "results.svg").read_text("utf-8") == plot(results)
    assert (FOLDER / "growth.svg").read_text("utf-8") == growth_plot(results)
    for path, told in PAGES.items():
        page = path.read_text("utf-8")
        assert with_text(page, told(results)) == page
    assert results.growth.keys() <= {one.key for one in GROWTHS}
    assert results.through.keys() == {one.name for one in SETTINGS}
    with pytest.raises(ValueError, match="page"):
        with_text("# genguard", "numbers")


def test_a_heading_names_day_commit_and_machine() -> None:
    results = Results("2027-01-02", {"cores": "2"}, "Reviews", {}, commit="0123456789ab")
    assert heading(results) == "2027-01-02, commit 0123456789ab. cores 2.\nReviews."
    assert commit() == "" or re.fullmatch(r"[0-9a-f]{12,}(-dirty)?", commit())


def released(changelog: str) -> str:
    """The day of the last release; "" as long as there is none."""
    return max(
        re.findall(r"^## \[\d[^\]]*\] - (\d{4}-\d\d-\d\d)$", changelog, re.MULTILINE), default=""
    )


def test_the_numbers_are_not_older_than_the_last_release() -> None:
    changelog = (REPOSITORY / "CHANGELOG.md").read_text("utf-8")
    assert read_results().date >= released(changelog), "make bench"
    told = "## [Unreleased]\n## [0.2.0] - 2027-03-01\n## [0.1.0] - 2026-12-24\n"
    assert released(told) == "2027-03-01"
    assert released("## [Unreleased]\n## [0.1.0] - not yet published\n") == ""


def test_the_plot_is_xml_with_a_bar_for_each_number() -> None:
    names = ("floor", "genguard", "<go>")
    samples = {name: {panel.key: [2.0, 4.0] for panel in PANELS} for name in names}
    root = ET.fromstring(plot(Results("", {}, "", samples)))  # noqa: S314 - our own
    bars = [one for one in root.iter() if one.tag.endswith("rect")]
    assert len(bars) == len(names) * len(PANELS)
    assert sum(one.get("class") == "own" for one in bars) == len(PANELS)
    assert "<go>" in "".join(root.itertext())


def test_the_plot_of_growth_has_a_panel_for_what_was_measured_and_a_bar_for_each_step() -> None:
    found = {"0/cpu_us": [1.0], "50/cpu_us": [3.0, 5.0], "0/p50_ms": [9.0]}
    growth = {"others": {GENGUARD: found}, "bodies": {GENGUARD: {"2 KB/cpu_us": [1.0]}}}
    root = ET.fromstring(growth_plot(Results("", {}, "", {}, growth)))  # noqa: S314 - our own
    assert sum(one.tag.endswith("rect") for one in root.iter()) == 2
    assert {"0", "50", "4"} <= {text.strip() for text in root.itertext()}
    keys = {one.key: one.numbers for one in GROWTHS}
    assert all(panel.key in keys[key] for key, panel in GROWN.items())


def test_genguard_is_measured_beside_other_webhooks() -> None:
    found = run_others(TINY, lambda _: None)[GENGUARD]
    assert set(OTHERS.keys) == found.keys()
    assert all(number > 0 for numbers in found.values() for number in numbers)


@pytest.mark.parametrize("name", [RECORDED_REVIEWS, *SIZES])
def test_bodies_have_their_size_and_change_what_they_say(name: str) -> None:
    for one in REVIEWS[name]():
        request = json.loads(one.body)["request"]
        if name in SIZES:
            assert abs(len(one.body) - SIZES[name]) <= 2
            assert mutated(request) != request["object"]
        assert one.write == f"{request['operation']} {request.get('subResource', '')}".strip()


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
    found = costs([50.0, 40.0, 45.0], [75.0, 80.0, 90.0], [160.0, 160.0, 180.0])
    samples = {"aiohttp": {"cpu_us": [100.0, 80.0, 90.0]}, **found}
    lines = main_table(Results("", {}, "", samples)).splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:6]] for line in lines]
    assert rows[0] == ["server", "CPU µs", "x floor", "x aiohttp", "x go"]
    assert rows[2] == ["aiohttp", "90 ±10", "2.00", "1.00", "0.50"]
    assert rows[3] == ["floor", "45 ±5", "1.00", "0.50", "0.25"]
    assert rows[4] == ["genguard", "80 ±8", "2.00", "1.00", "0.50"]
    assert rows[5] == ["go", "160 ±10", "4.00", "2.00", "1.00"]


def test_an_object_number_makes_another_object_of_the_same_length() -> None:
    (recorded,) = REVIEWS[STATUS]()
    template = make_template(recorded, "/mutate")
    requests = [json.loads(template.fill(7, number).body)["request"] for number in (1, 2)]
    names = [one["name"] for one in requests]
    uids = [one["object"]["metadata"]["uid"] for one in requests]
    assert len({*names}) == len({*uids}) == 2
    for one, name in zip(requests, names, strict=True):
        for side in ("object", "oldObject"):
            assert one[side]["metadata"]["name"] == name
            assert one[side]["metadata"]["uid"] in uids


def test_tracking_is_measured_for_each_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert measure_tracking(["--objects", "300", "--updates", "100"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    for kind, _ in WRITES:
        (numbers,) = [row[1:] for row in rows if row[0] == kind.resource]
        assert len(numbers) == 6
        assert 200 < float(numbers[1]) < 1_024, "what Tracking bounds itself by"


def test_pauses_are_measured_with_and_without_a_thread(capsys: pytest.CaptureFixture[str]) -> None:
    assert measure_pauses(["--seconds", "0.1"]) == 0
    _, *lines = capsys.readouterr().out.splitlines()
    judged = [line for line in lines if "ratio" not in line]
    assert [line.split("  ")[0] for line in judged] == [JUDGED_ALONE] * 2 + [REORDERED] * 2
    assert all(float(word) > 0 for line in judged for word in line.split()[-3:])


def test_percentiles_are_nearest_ranks() -> None:
    assert percentile([1.0], 0.99) == 1.0
    assert percentile(list(range(100)), 0.5) == 50
    assert percentile(list(range(100)), 0.99) == 99


def test_an_unknown_server_is_named() -> None:
    with pytest.raises(ValueError, match="nobody"):
        servers_named(["nobody"])
