"""Server versions as people and servers write them."""

from dataclasses import replace

import pytest

from genguard.generation.prediction import Cause, Prediction
from genguard.generation.strategy import OnCreate, UnknownServerVersionError, parse_version
from genguard.generation.table import load_table
from tests.cases_loader import Case, table


@table("objects/server_versions.yaml", "text", "version")
def test_versions_of_servers_and_of_people_are_read(case: Case) -> None:
    if case["version"] is not None:
        assert parse_version(case["text"]) == tuple(case["version"]), case.because
        return
    with pytest.raises(UnknownServerVersionError, match=r"write it as 1\.36 or v1\.36\.3"):
        parse_version(case["text"])


def test_a_table_for_an_unknown_server_is_refused():
    with pytest.raises(UnknownServerVersionError):
        load_table("newest")


@pytest.mark.parametrize(
    ("on_create", "compare", "keeps"),
    [
        (OnCreate.ONE, ("/spec",), True),
        (OnCreate.ONE, (), True),
        (OnCreate.KEPT, ("/spec",), True),
        (OnCreate.KEPT, (), False),
    ],
)
def test_a_kind_keeps_a_generation_when_some_write_sets_or_moves_it(on_create, compare, keeps):
    known = load_table().find("apps", "deployments")
    assert known is not None
    assert replace(known, on_create=on_create, compare=compare).keeps_generation is keeps


@pytest.mark.parametrize(("step", "moves"), [(1, True), (0, False), (None, False)])
def test_a_write_is_counted_when_it_moves_the_generation(step, moves):
    assert Prediction(2, step, Cause.SPEC_CHANGED).moves is moves
