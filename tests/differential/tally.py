"""Holds what genguard predicted against what the API server stored."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from genguard.admission.review import Phase
from genguard.generation import Cause, Prediction, predict
from genguard.generation.custom import CustomResource, from_definition
from genguard.generation.table import DEFAULT_SERVER_VERSION
from genguard.review import review
from genguard.review_setup import ReviewOptions, ReviewSetup
from tests.differential.samples import definitions, notation
from tests.differential.writes import WRITER, Written

# The API server never sends these to webhooks that are registered through the API.
_NEVER_REVIEWED = "admissionregistration.k8s.io"


def custom_resources() -> tuple[CustomResource, ...]:
    """What --crds would say of the sample definitions."""
    return tuple(one for item in definitions()["items"] for one in from_definition(item))


class Reviews:
    """The recorded reviews of each writer, with what is predicted from each."""

    def __init__(self, recording: Path, server_version: str = DEFAULT_SERVER_VERSION) -> None:
        options = ReviewOptions(server_version=server_version, custom_resources=custom_resources())
        dependencies = ReviewSetup(options).dependencies
        self.server_version = server_version
        self.count = 0
        self._last: dict[tuple[str, Phase], tuple[Prediction, dict[str, Any]]] = {}
        self._seen: defaultdict[str, set[Phase]] = defaultdict(set)
        with recording.open("rb") as lines:
            for line in lines:
                recorded = json.loads(line)
                user = recorded["review"]["request"]["userInfo"]["username"]
                if not user.startswith(WRITER):
                    continue
                phase = Phase(recorded["phase"])
                reply = review(json.dumps(recorded["review"]).encode(), phase, dependencies, 0.0)
                assert reply.result.prediction is not None, reply.body
                # The last pass of a write is the one that was stored.
                self._last[user, phase] = (reply.result.prediction, recorded["review"]["request"])
                self._seen[user].add(phase)
                self.count += 1

    def last(self, user: str, phase: Phase) -> tuple[Prediction, dict[str, Any]]:
        """Prediction and request of a writer's last pass through a phase."""
        return self._last[user, phase]

    def phases(self, user: str) -> set[Phase]:
        """Which phases a writer's reviews came through."""
        return self._seen[user]


class Tally:
    """What agreed, and in which words the rest did not."""

    def __init__(self) -> None:
        self.checked = 0
        self.by_resource: Counter[str] = Counter()
        self.by_kind_of_write: Counter[str] = Counter()
        self.moved = 0
        self.disagreements: list[str] = []

    def add(self, written: Written, complaints: Iterable[str]) -> None:
        """Count one write."""
        self.checked += 1
        self.by_resource[notation(written.resource)] += 1
        self.by_kind_of_write[written.what] += 1
        name = f"{written.resource.version} {notation(written.resource)} {written.subresource}"
        self.disagreements += [f"{written.what} of {name}: {text}" for text in complaints]


def check(written: Written, reviews: Reviews, *, alone: bool) -> Iterator[str]:
    """Every way in which a write's predictions are not what happened.

    alone  nobody else wrote to the object: reads before and after belong to this write
    """
    if written.resource.group == _NEVER_REVIEWED:
        predicted = predicted_by_library(written, reviews.server_version)
        yield from compare(predicted, written, alone=alone)
        return
    if not reviews.phases(written.user) and _deleted_again(written):
        # Answered from the pending deletion, without admission (store.go:Delete, pendingGraceful).
        if generation(written.answer) != generation(written.before):
            yield "generation moved without a review"
        return
    if reviews.phases(written.user) != set(Phase):
        yield f"reviewed in {sorted(reviews.phases(written.user))} only"
        return
    for phase in Phase:
        prediction, _ = reviews.last(written.user, phase)
        yield from (f"{phase}: {text}" for text in compare(prediction, written, alone=alone))
    _, outcome = reviews.last(written.user, Phase.OUTCOME)
    if written.operation == "UPDATE" and written.subresource != "scale":
        stored, shown = generation(written.answer), generation(outcome["object"])
        if stored != shown:
            yield f"the outcome review shows {shown}, stored is {stored}"


def _deleted_again(written: Written) -> bool:
    metadata = (written.before or {}).get("metadata", {})
    return written.operation == "DELETE" and "deletionTimestamp" in metadata


def predicted_by_library(written: Written, server_version: str) -> Prediction:
    """What the library says of a write, by what the API server answered with."""
    new = None if written.operation == "DELETE" else written.answer
    return predict(
        written.operation,
        notation(written.resource),
        new,
        written.before if written.operation != "CREATE" else None,
        subresource=written.subresource,
        options=written.options,
        server_version=server_version,
    )


def compare(prediction: Prediction, written: Written, *, alone: bool) -> Iterator[str]:
    """Every way in which a prediction is not what was stored; `alone` as in check()."""
    if written.operation == "DELETE":
        yield from _compare_delete(prediction, written)
        return
    if prediction.generation is None and prediction.step:
        # A Scale or an Eviction: the object it acts on shows what happened.
        moved = generation(written.after) - generation(written.before)
        if alone and written.after is not None and moved != prediction.step:
            yield f"{prediction} but {generation(written.before)} → {generation(written.after)}"
        return
    if written.subresource in ("scale", "binding", "eviction"):
        moved = generation(written.after) - generation(written.before)
        if alone and moved != (prediction.step or 0):
            yield f"{prediction} but {generation(written.before)} → {generation(written.after)}"
        return
    stored = generation(written.answer)
    if (prediction.generation or 0) != stored:
        yield f"{prediction} but stored is {stored}"


def _compare_delete(prediction: Prediction, written: Written) -> Iterator[str]:
    answer = written.answer
    survived = answer.get("kind") == written.resource.kind and answer.get("metadata", {}).get("uid")
    if survived:
        if (prediction.generation or 0) != generation(answer):
            yield f"{prediction} but the deleted object has {generation(answer)}"
    elif written.after is not None and prediction.cause is Cause.REMOVED_AT_ONCE:
        yield f"{prediction} but the object is still there"
    elif prediction.cause is Cause.DELETION_STARTED and written.resource.resource != "pods":
        yield f"{prediction} but the object was removed at once"


def generation(document: dict[str, Any] | None) -> int:
    """metadata.generation as the server's int64 holds it."""
    return (document or {}).get("metadata", {}).get("generation") or 0
