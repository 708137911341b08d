"""A page says of each kind what the engine does, and nothing that it does not."""

import pytest

from genguard.explain import page as page_module
from genguard.explain.explanation import Catalogue, PredicateSafety
from genguard.explain.page import page
from genguard.generation import predict
from genguard.generation.strategy import Equality, OnCreate, OnDelete, Propagation, SubresourceRule
from genguard.generation.table import load_rows, load_table
from tests.cases_loader import table
from tests.unit.explain.samples import definitions

VERSIONS = ("1.28", "1.33", "1.36", "1.37")


def catalogue(version="1.36"):
    return Catalogue(load_table(version), definitions())


@table("explain/pages.yaml", "resource", "server", "lines", "silent")
def test_a_page_says_what_holds_for_the_kind(case):
    sections = page(catalogue(case.get("server", "1.36")).explain(case["resource"]))
    for heading, expected in case["lines"].items():
        (section,) = (one for one in sections if one.heading.startswith(heading))
        for word, text in expected.items():
            told = [line for name, line in section.lines if name == word]
            assert text in "".join(told), case.because
    said = {word for section in sections for word, _ in section.lines}
    assert not said & set(case.get("silent", ())), case.because


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_explained_is_what_the_engine_predicts(version, subtests):
    """The page reads the table; here the engine is asked, and must agree."""
    known = catalogue(version)
    for row in load_rows():
        with subtests.test(row.name):
            explained_as_predicted(row, version, known.explain(row.name).generation)


def explained_as_predicted(row, version, found):
    created = predict("CREATE", row.name, {"metadata": {"generation": 7}}, server_version=version)
    assert created.effective is ("CREATE" in found.stored_as_sent)
    assert (created.generation == 1) is (found.on_create is OnCreate.ONE)
    stored = {"metadata": {"generation": 5}, "spec": None}
    for pointer in found.counts:
        first, _, rest = pointer[1:].partition("/")
        change = {"metadata": {"generation": 5, rest: {"a": "b"}}} if rest else {first: {"a": "b"}}
        changed = predict("UPDATE", row.name, {**stored, **change}, stored, server_version=version)
        assert changed.step == 1, pointer
    if not found.counts and row.persisted:
        changed = predict("UPDATE", row.name, {"spec": {"a": "b"}}, stored, server_version=version)
        assert changed.step == 0


def test_every_rule_of_the_table_has_words():
    assert set(page_module.ON_CREATE) == set(OnCreate)
    assert set(page_module.EQUALITY) == set(Equality)
    assert set(page_module.SUBRESOURCE) == set(SubresourceRule)
    assert set(page_module.ON_DELETE) == set(OnDelete)
    assert set(page_module.PROPAGATION) == set(Propagation)
    assert set(page_module.PREDICATE) == set(PredicateSafety)
