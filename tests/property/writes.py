"""Reviews: what careless webhooks make of a status, writes of spec, anything, and broken bytes."""

import json
from typing import Any

from hypothesis import strategies as st

from tests.property.strategies import (
    GENERATIONS,
    JSON,
    METADATA,
    NAMES,
    OBJECTS,
    ODD_STATUSES,
    OPTIONS,
    RESOURCES,
    SPECS,
    STATUSES,
    SUBRESOURCES,
    TYPES,
)
from tests.reviews import make_review

COUNTING = st.sampled_from(["deployments", "pods", "widgets", "gadgets.example.org"])
STATUS_WRITES = st.fixed_dictionaries(
    {"status": STATUSES | ODD_STATUSES}, optional={"metadata": METADATA, "spec": SPECS}
)
REPORTED = st.fixed_dictionaries(
    {"observedGeneration": GENERATIONS, "phase": NAMES},
    optional={
        "conditions": st.lists(
            st.fixed_dictionaries({"type": TYPES, "observedGeneration": GENERATIONS}), max_size=3
        )
    },
)
SPEC_WRITES = st.fixed_dictionaries({"spec": SPECS}, optional={"metadata": METADATA, "data": JSON})


def _drop(status: dict[str, Any], how: int) -> dict[str, Any]:
    """Clear one way or another what a webhook without the field clears."""
    if how == 0:
        return {key: value for key, value in status.items() if key != "observedGeneration"}
    return {**status, "observedGeneration": [0, None, ""][how - 1]}


@st.composite
def _clobbered(draw: st.DrawFn, reported: dict[str, Any]) -> dict[str, Any]:
    """A reported status as it comes back from a careless webhook."""
    ways = st.integers(0, 4)
    status = _drop(reported, way) if (way := draw(ways)) < 4 else reported
    if "conditions" in reported:
        conditions = [
            _drop(one, way) if (way := draw(ways)) < 4 else one for one in reported["conditions"]
        ]
        status = {**status, "conditions": draw(st.permutations(conditions))}
    return status


def reviews() -> st.SearchStrategy[dict[str, Any]]:
    """A decodable AdmissionReview: a write of status, of spec, or anything at all."""
    return _reviews().map(_of_one_uid)


def _of_one_uid(asked: dict[str, Any]) -> dict[str, Any]:
    asked["request"]["uid"] = "the-uid"  # an example must be the same when it is made again
    return asked


@st.composite
def _reviews(draw: st.DrawFn) -> dict[str, Any]:
    version = draw(st.sampled_from(["admission.k8s.io/v1", "admission.k8s.io/v1beta1"]))
    match draw(st.sampled_from(["clobber", "status", "spec", "anything"])):
        case "clobber":
            reported = draw(REPORTED)
            metadata = draw(METADATA)
            return make_review(
                "UPDATE",
                draw(COUNTING),
                {"status": draw(_clobbered(reported)), "metadata": metadata},
                {"status": reported, "metadata": metadata},
                subresource=draw(st.sampled_from(["status", ""])),
                version=version,
            )
        case "status":
            new, old = draw(STATUS_WRITES), draw(STATUS_WRITES)
            subresource = draw(st.sampled_from(["status", "status", ""]))
            return make_review(
                "UPDATE", draw(COUNTING), new, old, subresource=subresource, version=version
            )
        case "spec":
            new, old = draw(SPEC_WRITES), draw(SPEC_WRITES)
            if draw(st.booleans()):
                new = {**old, "metadata": new.get("metadata", {})}
            return make_review("UPDATE", draw(COUNTING | RESOURCES), new, old, version=version)
    operation = draw(st.sampled_from(["UPDATE", "UPDATE", "CREATE", "DELETE"]))
    return make_review(
        operation,
        draw(RESOURCES),
        draw(OBJECTS) if operation != "DELETE" else None,
        draw(OBJECTS) if operation != "CREATE" else None,
        subresource=draw(SUBRESOURCES),
        options=draw(OPTIONS),
        version=version,
    )


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A good review with a few bytes cut out, doubled, swapped or put in."""
    body = json.dumps(draw(reviews())).encode()
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(body)))
        length = draw(st.integers(0, 12))
        piece = draw(
            st.binary(max_size=4)
            | st.sampled_from([b"null", b"1e999", b"7" * 5_000, b"{}", b"[", b'"', b"\\u0000", b""])
        )
        body = body[:at] + piece + body[at + length * draw(st.integers(0, 1)) :]
    return body


@st.composite
def replaced(draw: st.DrawFn) -> bytes:
    """A good review in which one value, anywhere, is another one."""
    asked = draw(reviews())
    target: Any = asked
    while True:
        keys = list(target) if isinstance(target, dict) else list(range(len(target)))
        key = draw(st.sampled_from(keys))
        deeper = isinstance(target[key], dict | list) and target[key]
        if not deeper or draw(st.integers(0, 3)) == 0:
            target[key] = draw(JSON)
            return json.dumps(asked).encode()
        target = target[key]
