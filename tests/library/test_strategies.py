"""Objects made from the schema of a definition: an API server takes them, and failures shrink."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings

from genguard.testing import FakeApiServer, NotConvergedError, assert_converges, objects_of
from tests.cases_loader import read_beside

DEFINITION = read_beside(__file__, "backups.yaml")
SPEC = DEFINITION["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
BACKUPS = "backups.example.org"


def definition(spec: dict[str, Any]) -> dict[str, Any]:
    """The same with another schema of spec."""
    found = copy.deepcopy(DEFINITION)
    (version,) = found["spec"]["versions"]
    version["schema"]["openAPIV3Schema"]["properties"]["spec"] = spec
    return found


@settings(max_examples=50)
@given(objects_of(DEFINITION))
def test_each_object_is_taken_and_kept_as_it_is(backup):
    made = FakeApiServer(DEFINITION).create(backup)
    spec = dict(backup["spec"])
    kept = made["spec"]
    for one in (*spec["targets"], *kept["targets"]):
        if one.get("until") is None:  # null is dropped where there is no default
            one.pop("until", None)
    assert kept == spec


def test_what_fails_is_shrunk_and_shown_as_writes():
    some = {name: SPEC["properties"][name] for name in ("mode", "paused")}
    few_fields = definition({"type": "object", "properties": some})

    @settings(database=None, max_examples=20)
    @given(objects_of(few_fields))
    def converges(backup):
        fake = FakeApiServer(few_fields)
        name = fake.create(backup)["metadata"]["name"]

        def reconcile():
            found = fake.get(BACKUPS, name)
            spec, status = found["spec"], {"observedGeneration": found["metadata"]["generation"]}
            fake.patch(BACKUPS, name, {"status": status}, subresource="status")
            if spec.get("mode") == "Delta":  # it never comes to an end with this mode
                fake.patch(BACKUPS, name, {"spec": {"paused": not spec.get("paused")}})

        assert_converges(fake, BACKUPS, name, step=reconcile, rounds=3)

    with pytest.raises(NotConvergedError, match="it still writes after 3 rounds") as found:
        converges()
    assert "the last writes:" in str(found.value)
    (note,) = [one for one in found.value.__notes__ if "converges(" in one]
    assert "'mode': 'Delta'" in note
    assert "paused" not in note


@pytest.mark.parametrize(
    ("bounds", "allowed"),
    [
        ({"maximum": -5}, lambda number: number <= -5),
        ({"minimum": 0.5, "maximum": 2}, lambda number: number in (1, 2)),
        ({"minimum": 3, "exclusiveMinimum": True, "maximum": 5}, lambda number: number in (4, 5)),
        ({"multipleOf": 10}, lambda number: number % 10 == 0),
    ],
)
def test_numbers_keep_their_bounds(bounds, allowed):
    spec = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer", **bounds}}}

    @settings(database=None, max_examples=20)
    @given(objects_of(definition(spec)))
    def each(backup):
        assert allowed(backup["spec"]["n"])

    each()


def test_a_version_that_is_not_served_is_refused():
    with pytest.raises(LookupError, match="no version v2"):
        objects_of(DEFINITION, "v2")
