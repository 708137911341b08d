"""A manifest of a static webhook or policy is refused in one sentence, or can be used."""

from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from genguard.detection.static_manifests import BadManifestError, check_manifest, read_static
from genguard.detection.suspects import Suspects
from tests.unit.detection.test_static_manifests import BINDING, HOOK, POLICY
from tests.unit.detection.test_suspects import STATUS

_SELECTOR = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]}
_HOOK = deepcopy(HOOK)
_HOOK["webhooks"][0] |= {
    "namespaceSelector": _SELECTOR,
    "objectSelector": _SELECTOR,
    "matchConditions": [{"name": "c", "expression": "true"}],
}
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    else:
        return [path]
    return [path, *(one for key, part in inner for one in _paths(part, (*path, key)))]


@st.composite
def _changed(draw: st.DrawFn) -> dict[str, Any]:
    manifest = deepcopy(draw(st.sampled_from([_HOOK, POLICY, BINDING])))
    *above, last = draw(st.sampled_from([path for path in _paths(manifest) if path]))
    part: Any = manifest
    for key in above:
        part = part[key]
    part[last] = draw(_VALUES)
    return manifest


@given(_changed())
def test_whatever_a_field_holds_a_manifest_is_refused_or_can_be_matched(manifest):
    try:
        check_manifest(manifest)
    except BadManifestError as error:
        assert "\n" not in str(error)
        return
    found = read_static([manifest, POLICY, BINDING])
    for one in (*found.webhooks, *found.policies):
        one.covers(STATUS)
        one.is_exact(STATUS)
        one.sets("/status/a")
    Suspects(static=found).called(STATUS)
