"""Whatever an object holds, its places, pointers and annotated YAML mean the same."""

import yaml
from hypothesis import given
from hypothesis import strategies as st

from genguard.blame.drawing import annotated
from genguard.blame.field_paths import leaves, path_of_pointer, pointer_of
from genguard.blame.report import blame_live
from genguard.detection.finding import FoundObject

WEB = FoundObject("apps", "v1", "deployments", "shop", "web", "u")
SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=12)
KEYS = st.sampled_from(["name", "type", "ports", "port", "a.b/c", "conditions", "x", "0", "on"])
VALUES = st.recursive(
    SCALARS,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(KEYS, below, max_size=4),
    max_leaves=20,
)
OBJECTS = st.fixed_dictionaries(
    {"kind": st.just("Widget"), "spec": st.dictionaries(KEYS | st.text(max_size=6), VALUES)}
)


@given(OBJECTS)
def test_a_pointer_leads_back_to_its_place(document):
    for place, _ in leaves(document):
        assert path_of_pointer(pointer_of(place), document) == place


@given(OBJECTS)
def test_each_leaf_has_one_row_and_the_yaml_is_the_object(document):
    found = blame_live(WEB, document, None)
    expected = [place for place, _ in leaves(document) if place[0] != "kind"]
    assert len(found.fields) == len(expected)
    text = "\n".join((*annotated(found, document), ""))
    assert yaml.safe_load(text) == document
