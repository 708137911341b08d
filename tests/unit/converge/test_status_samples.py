"""Statuses that a controller might report, by the schema of a kind."""

from genguard.converge.status_samples import status_samples
from tests.cases_loader import table

SCHEMAS = {"Inner": {"type": "object", "properties": {"ready": {"type": "boolean"}}}}


@table("converge/status_samples.yaml", "schema", "first", "second")
def test_each_declared_field_has_a_value_and_another_one(case):
    def resolve(one):
        return SCHEMAS[one["$ref"].rpartition("/")[2]]

    found = status_samples(case["schema"], 4, resolve)
    assert found == (case["first"], case["second"]), case.because


def test_where_any_field_may_be_the_usual_ones_are_reported():
    open_schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    for status in status_samples(open_schema, 7):
        assert status["observedGeneration"] == 7
        assert status["conditions"][0]["observedGeneration"] == 7


def test_a_schema_that_contains_itself_comes_to_an_end():
    schema = {"type": "object", "properties": {"inner": {"$ref": "#/itself"}}}
    assert status_samples(schema, 1, lambda _: schema)[0]["inner"]
