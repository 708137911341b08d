"""predict(): the engine for people who have dictionaries and no server."""

import doctest

import pytest

import genguard.generation
from genguard.generation import Cause, Prediction, UnknownServerVersionError, library, predict


@pytest.mark.parametrize("module", [genguard.generation, library])
def test_the_examples_of_the_documentation_work(module):
    results = doctest.testmod(module)
    assert results.attempted > 0
    assert results.failed == 0


def test_the_public_names_are_those_that_are_listed():
    public = {name for name in vars(genguard.generation) if not name.startswith("_")}
    modules = {name for name in public if hasattr(getattr(genguard.generation, name), "__path__")}
    submodules = {"comparison", "custom", "deletion", "library", "pod_subresources", "prediction"}
    submodules |= {"flipped_conditions", "strategy", "table", "transition"}
    assert public - modules - submodules == set(genguard.generation.__all__)
    assert sorted(genguard.generation.__all__) == genguard.generation.__all__


def test_an_eviction_of_a_shown_pod_tells_its_generation_too():
    old = {"metadata": {"generation": 3}}
    assert predict("CREATE", "pods", {}, old, subresource="eviction").generation == 4


def test_the_version_of_the_object_chooses_its_types():
    """maxReplicas stands in both versions of the API, metrics only in v2."""
    old = {"apiVersion": "autoscaling/v2", "spec": {"metrics": None}}
    new = {"apiVersion": "autoscaling/v2", "spec": {"metrics": []}}
    name = "horizontalpodautoscalers.autoscaling"
    assert predict("UPDATE", name, new, old, server_version="1.37").step == 0


def test_without_an_object_a_creation_of_what_keeps_no_generation_stores_none():
    assert predict("CREATE", "configmaps", None) == Prediction(
        None, 0, Cause.KEEPS_NONE, effective=True
    )


def test_what_is_given_stays_as_it_was():
    old = {"metadata": {"generation": 3}, "spec": {"replicas": 1}}
    new = {"spec": {"replicas": 2}}
    predict("UPDATE", "deployments.apps", new, old)
    assert old == {"metadata": {"generation": 3}, "spec": {"replicas": 1}}
    assert new == {"spec": {"replicas": 2}}


def test_an_operation_or_version_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="PATCH"):
        predict("PATCH", "pods", {}, {})
    with pytest.raises(UnknownServerVersionError):
        predict("CREATE", "pods", {}, server_version="new")


@pytest.mark.parametrize(
    ("operation", "subresource"), [("UPDATE", ""), ("DELETE", ""), ("UPDATE", "scale")]
)
def test_without_what_was_stored_nothing_is_claimed(operation, subresource):
    found = predict(operation, "replicasets.apps", {}, subresource=subresource)
    assert found == Prediction(None, None, Cause.NO_OBJECT)
