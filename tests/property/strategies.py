"""Objects and reviews as clients, webhooks and nobody in their right mind would send them."""

import json
from typing import Any

from hypothesis import strategies as st

from tests.reviews import KINDS, make_review
from webhook.generation import CustomResource, StatusSubresource

SMALL = st.integers(0, 3)
NAMES = st.sampled_from(["a", "b", "replicas", "a/b", "c~d", "", "é"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "a", "1", "1000m", "1Gi", "2026-01-01T00:00:00Z", "\u2028"])
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)

CLEARED = st.sampled_from([0, None, ""])
GENERATIONS = st.integers(-1, 9).filter(bool) | st.sampled_from(["1", "7", "-1", 2**63 - 1])
FOREIGN = st.sampled_from([True, False, 1.0, 0.0, [], {}, "hash", 2**63, "9" * 30])
OBSERVED = CLEARED | GENERATIONS | FOREIGN
TYPES = st.sampled_from(["Ready", "Synced", "Ready ", ""])


def _optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


CONDITIONS = st.lists(
    _optional(type=TYPES, status=st.sampled_from(["True", "False"]), observedGeneration=OBSERVED),
    max_size=4,
)
STATUSES = _optional(
    observedGeneration=OBSERVED, conditions=CONDITIONS, replicas=SMALL, phase=SCALARS
)
ODD_STATUSES = STATUSES | JSON | _optional(observedGeneration=JSON, conditions=JSON)

ANNOTATIONS = st.dictionaries(
    st.sampled_from(["a", "genguard.io/generation"]),
    st.sampled_from(["", "1", "41", "many", "9" * 5_000, "٣"]),
    max_size=2,
)
METADATA = _optional(
    generation=st.none() | st.integers(0, 5) | st.sampled_from([-1, 2**63 - 1]),
    annotations=st.none() | ANNOTATIONS,
    labels=st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"), max_size=2),
    finalizers=st.none() | st.lists(st.sampled_from(["a/b", "orphan", "foregroundDeletion"])),
    deletionTimestamp=st.none() | st.just("2026-01-01T00:00:00Z"),
)
_CONTAINERS = st.lists(
    _optional(
        name=st.sampled_from("ab"),
        image=st.sampled_from("xy"),
        env=st.none() | st.just([]) | st.lists(_optional(name=NAMES, value=NAMES), max_size=2),
        resources=_optional(limits=st.dictionaries(st.sampled_from(["cpu"]), SCALARS)),
    ),
    max_size=2,
)
SPECS = _optional(replicas=SMALL, containers=_CONTAINERS, template=JSON, paused=st.booleans())
OBJECTS = _optional(metadata=METADATA, spec=SPECS | JSON, status=ODD_STATUSES, data=JSON)

PLAIN_RESOURCES = sorted(KINDS)
RESOURCES = st.sampled_from(
    [
        *PLAIN_RESOURCES,
        "gadgets.example.org",
        "networkpolicies.networking.k8s.io",
        "endpointslices.discovery.k8s.io",
        "csidrivers.storage.k8s.io",
        "priorityclasses.scheduling.k8s.io",
        "jobs.batch",
        "events",
        "namespaces",
        "tokenreviews.authentication.k8s.io",
    ]
)
SUBRESOURCES = st.sampled_from(
    ["", "", "status", "status", "scale", "resize", "ephemeralcontainers", "eviction", "odd"]
)
OPTIONS = st.none() | _optional(
    propagationPolicy=st.sampled_from(["Orphan", "Foreground", "Background"]),
    orphanDependents=st.booleans(),
)
CUSTOM = st.sampled_from(
    [
        (),
        *[
            (CustomResource("example.org", "v1", "widgets", "Widget", status),)
            for status in (StatusSubresource.PRESENT, StatusSubresource.ABSENT)
        ],
    ]
)


@st.composite
def reviews(draw: st.DrawFn, objects: st.SearchStrategy[dict[str, Any]] = OBJECTS) -> Any:
    """A decodable AdmissionReview of any operation; updates often change little or nothing."""
    operation = draw(st.sampled_from(["UPDATE", "UPDATE", "UPDATE", "CREATE", "DELETE"]))
    old = draw(objects) if operation != "CREATE" else None
    new = draw(objects) if operation != "DELETE" else None
    if old is not None and new is not None and draw(st.booleans()):
        new = {**old, **draw(st.fixed_dictionaries({}, optional={"status": ODD_STATUSES}))}
    return make_review(
        operation,
        draw(RESOURCES),
        new,
        old,
        subresource=draw(SUBRESOURCES),
        options=draw(OPTIONS),
        version=draw(st.sampled_from(["admission.k8s.io/v1", "admission.k8s.io/v1beta1"])),
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
