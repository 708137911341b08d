"""What people have reported in public is found, with who does it first, in reviews and in logs."""

import gzip
from pathlib import Path

import pytest
import yaml

from genguard.replay import Replay
from genguard.review_setup import ReviewOptions
from tests.unit.detection.evaluating import CONDITIONS
from webhook.files.given import load_definitions, load_mutators

FOLDER = Path(__file__).with_name("reported")
WANTED = yaml.safe_load(FOLDER.with_suffix(".yaml").read_text())
FILES = {
    path.name.removesuffix(".gz").removesuffix(".ndjson"): path for path in FOLDER.glob("*.gz")
}


@pytest.mark.parametrize("file", sorted(FILES))
def test_a_reported_incident_is_found_and_blames_nobody_else(file: str):
    name = file.partition(".")[0]
    registered = FOLDER / f"{name}.webhooks.json"
    options = ReviewOptions(custom_resources=load_definitions(FOLDER / "crds.json"))
    mutators = load_mutators(registered, CONDITIONS) if registered.exists() else None
    run = Replay(options, mutators)
    lines = gzip.decompress(FILES[file].read_bytes()).splitlines()
    assert all(one["type"] == "review" for one in run.lines(lines, file))
    assert not run.unreadable
    found = [one for one in run.findings() if one["severity"] != "info"]
    wanted = WANTED[name].get("find", {})
    for one in found:
        sure = [actor["name"] for actor in one["actors"] if actor["confidence"] != "possible"]
        assert one["detector"] in wanted, f"false: {one['message']}"
        assert sure[:1] == wanted[one["detector"]][:1]
        assert {*sure} <= {*wanted[one["detector"]]}
    assert {next(iter(wanted), None)} <= {None, *(one["detector"] for one in found)}


def test_each_file_is_expected_to_be_found_or_quiet():
    assert {file.partition(".")[0] for file in FILES} == {*WANTED}
