"""What is asked: the recorded reviews, one of them for many objects, or made ones of a size."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from genguard.admission.review import Phase
from tests.reviews import make_review
from tools.bench import workload
from tools.bench.corpus import Recorded, mean_bytes, read_corpus

RECORDED: Final = "recorded"
STATUS: Final = "status"
Pair = tuple[workload.Manifest, workload.Manifest]

SIZES: Final = {"2 KB": 2_000, "20 KB": 20_000, "200 KB": 200_000, "1.5 + 1.5 MiB": 3 << 20}
"""The last is what the API server sends of an object as large as etcd takes: new and old."""

_UID: Final = "00000000-0000-4000-8000-000000000000"
_OBJECT_UID: Final = "00000000-0000-4000-9000-000000000000"
_VALUE: Final = 40


def sized(size: int) -> Sequence[Recorded]:
    """A status update and a spec update of a pod, each of `size` bytes, half of it the old object.

    A pod grows as they do in clusters that have large ones: more containers with more variables.
    """
    return [_fitted(size, "status", _of_status), _fitted(size, "", _of_spec)]


def _status_update() -> Sequence[Recorded]:
    corpus = read_corpus()
    mean = mean_bytes(corpus)
    updates = [one for one in corpus if one.write == "UPDATE status"]
    return [min(updates, key=lambda one: abs(len(one.body) - mean))]


REVIEWS: Final[Mapping[str, Callable[[], Sequence[Recorded]]]] = {
    RECORDED: read_corpus,
    STATUS: _status_update,
    **{name: partial(sized, size) for name, size in SIZES.items()},
}


def _of_status(variables: int, padding: int) -> Pair:
    """A kubelet that knows no observedGeneration reports."""
    new, old = (_pod(variables, padding) for _ in range(2))
    del new["status"]["observedGeneration"]
    new["status"]["conditions"][0]["status"] = "False"
    return new, old


def _of_spec(variables: int, padding: int) -> Pair:
    new, old = (_pod(variables, padding) for _ in range(2))
    new["spec"]["activeDeadlineSeconds"] = 1_000
    return new, old


def _pod(variables: int, padding: int) -> workload.Manifest:
    containers = [
        _container(f"c-{at:06}", env=_env(at, variables)) for at in range(0, variables, 100)
    ]
    only = _container("c", args=["x" * padding])
    condition = {"type": "Ready", "status": "True", "observedGeneration": 3}
    return {
        "metadata": {"name": "sized-000000", "uid": _OBJECT_UID, "generation": 3},
        "spec": {"containers": [only, *containers], "activeDeadlineSeconds": 2_000},
        "status": {"observedGeneration": 3, "phase": "Running", "conditions": [condition]},
    }


def _container(name: str, **more: Any) -> workload.Manifest:
    # As the API server has it: a Go client would add what is missing, and send it as a patch.
    return {"name": name, "image": f"{workload.REGISTRY}/c:1", "resources": {}, **more}


def _env(first: int, variables: int) -> list[dict[str, str]]:
    numbers = range(first, min(first + 100, variables))
    return [{"name": f"VARIABLE_{number:06}", "value": "x" * _VALUE} for number in numbers]


def _fitted(size: int, subresource: str, made: Callable[[int, int], Pair]) -> Recorded:
    """As many variables as there is room for, the rest an argument."""
    empty, hundred = (len(_body(subresource, made(count, 0))) for count in (0, 100))
    variables = max(0, (size - empty) * 100 // (hundred - empty) - 1)
    missing = size - len(_body(subresource, made(variables, 0)))
    body = _body(subresource, made(variables, missing // 2))
    return Recorded("", Phase.MUTATE, body, "UPDATE", subresource)


def _body(subresource: str, pair: Pair) -> bytes:
    new, old = pair
    name = new["metadata"]["name"]
    review: dict[str, Any] = make_review(
        "UPDATE", "pods", new, old, subresource=subresource, name=name
    )
    review["request"]["uid"] = _UID
    return json.dumps(review, separators=(",", ":")).encode()
