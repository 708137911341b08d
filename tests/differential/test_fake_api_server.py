"""The fake API server of genguard.testing against a real one, write by write.

Both get the same random writes, each on its own object of the same name: the same answers, and the
same generation after each write. A write that the real one refuses for what the fake does not
check (validation of built-in kinds, admission plugins) is not sent to the fake.
"""

import http.client
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from genguard.testing import FakeApiServer
from tests.controlplane.client import Client, Endpoint, Response, wait_until
from tests.controlplane.discovery import ServedResource
from tests.controlplane.plane import ControlPlane
from tests.differential.samples import Filler, definitions, load_samples, notation
from tests.differential.test_differential import WRITTEN_WORDS, served
from tests.differential.writes import SUBRESOURCE_WRITES, Target, finish, random_write

__all__ = ["served"]  # the fixture

SEED = int(os.environ.get("GENGUARD_SEED", "1")) + 50
WRITES_PER_OBJECT = 24
NAMESPACE = "fake-differential"
COMPARED = {200, 201, 202, 404, 409}
"""Answers that the fake must give too. 422 and 403 are validation and admission, which it leaves
out for built-in kinds; of the others nothing is known before the real server answers."""
CLEAN_UP = "customresourcecleanup.apiextensions.k8s.io"
OWN_WORDS = {"stale put", "stale patch", "missing", "taken name", "no version", "own uid"}


class PlainConnection(http.client.HTTPConnection):
    """Closes itself when the thread that kept it is gone; otherwise that is a ResourceWarning."""

    def __del__(self) -> None:
        self.close()


class PlainClient(Client):
    """The same client, over HTTP."""

    def _connect(self, timeout: float) -> Any:
        at = self._endpoint
        return PlainConnection(at.host, at.port, timeout=timeout)

    def as_user(self, name: str, groups: Any = ()) -> Client:
        return self


class Twin(Target):
    """A target that remembers each answer, and that leaves a write out when it is told to."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.answers: list[tuple[str, str, int, Any, Any]] = []
        self.left_out: Callable[[], bool] = lambda: False

    def get(self) -> dict[str, Any] | None:
        """The object; asked again while the API server is too busy to tell."""

        def found() -> tuple[dict[str, Any] | None]:
            answer = self._client.get(self.path(), check=False)
            assert answer.status in (200, 404)
            return (answer.body if answer.status == 200 else None,)

        return wait_until(found, what=f"an answer to {self.path()}")[0]

    def write(
        self,
        what: str,
        operation: str,
        send: Callable[[Client, Mapping[str, str]], Response],
        *,
        subresource: str = "",
        dry_run: bool = False,
        options: dict[str, Any] | None = None,
    ) -> Response:
        if self.left_out():
            self.answers.append((what, "", 0, None, None))
            return Response(422, None)
        params = {"fieldManager": "differential"} | ({"dryRun": "All"} if dry_run else {})
        answer = send(self._client, params)
        after = self._get_cleaned_up()
        asked = (answer.body.get("metadata") or {}).get("generation") if answer.body else None
        self.answers.append((what, subresource, answer.status, asked, after))
        return answer

    def _get_cleaned_up(self) -> dict[str, Any] | None:
        """The object; of a definition that is deleted, when its API server has cleaned up."""

        def found() -> tuple[dict[str, Any] | None]:
            document = self.get()
            assert CLEAN_UP not in ((document or {}).get("metadata", {}).get("finalizers") or ())
            return (document,)

        return wait_until(found, what="the clean-up of custom resources")[0]


class Pair:
    """One object on the real API server, and its twin on the fake."""

    def __init__(self, real: Client, fake: Client, resource: ServedResource, seed: int) -> None:
        sample = load_samples()[notation(resource)]
        self.real, self.fake = (
            Twin(client, resource, sample, Filler(seed, NAMESPACE), NAMESPACE)
            for client in (real, fake)
        )
        self.fake.left_out = self._is_left_out
        self.checked = 0
        self.left_out = 0
        self.is_lost = False
        """The real object changed by itself: a busy server did not say what it did, or controllers
        inside of it wrote (they remove an IPAddress without a Service, and give an APIService its
        conditions)."""
        self.disagreements: list[str] = []

    def _is_left_out(self) -> bool:
        """Whether the real one has refused this write for what the fake does not check."""
        number = len(self.fake.answers)
        if number >= len(self.real.answers):
            self.is_lost = True
            return True
        return self.real.answers[number][2] not in COMPARED

    def do(self, act: Callable[[Twin], None]) -> None:
        """Do the same to both, and compare the answers."""
        if self.is_lost:
            return
        begin = len(self.real.answers)
        act(self.real)
        act(self.fake)
        pairs = zip(self.real.answers[begin:], self.fake.answers[begin:], strict=False)
        for real, fake in pairs:
            if fake[2] == 0:
                self.left_out += 1
                continue
            if self.is_lost or self._was_overtaken(real, fake):
                self.is_lost = True
                return
            self.checked += 1
            before, after = self._told(real), self._told(fake)
            if before != after:
                self.disagreements.append(
                    f"{notation(self.real.resource)} {self.real.name} {real[0]}: the API server "
                    f"has {before}, the fake {after}"
                )
        if len(self.real.answers) != len(self.fake.answers):
            self.is_lost = True
        self.is_lost |= any(one[2] == 429 or one[2] >= 500 for one in self.real.answers[begin:])

    @staticmethod
    def _was_overtaken(real: Any, fake: Any) -> bool:
        """Whether a controller wrote between the read and the write that sends what was read."""
        return real[0] not in OWN_WORDS and real[2] == 409 and fake[2] in {200, 201}

    @staticmethod
    def _told(answer: tuple[str, str, int, Any, Any]) -> dict[str, Any]:
        _, _, status, shown, after = answer
        metadata = (after or {}).get("metadata", {})
        return {
            "status": status,
            "shown": shown,
            "generation": metadata.get("generation"),
            "is there": after is not None,
            "is deleting": "deletionTimestamp" in metadata,
            "finalizers": sorted(metadata.get("finalizers") or ()),
        }


def _document(target: Twin) -> dict[str, Any]:
    found = target.get()
    return found if found is not None else {"metadata": {"name": target.name}}


def _stale_put(target: Twin) -> None:
    document = _document(target)
    document["metadata"]["resourceVersion"] = "1"
    target.write("stale put", "UPDATE", lambda c, p: c.put(target.path(), document, check=False))


def _stale_patch(target: Twin) -> None:
    patch = {"metadata": {"resourceVersion": "1", "labels": {"stale": "yes"}}}
    target.write("stale patch", "UPDATE", lambda c, p: c.patch(target.path(), patch, check=False))


def _missing(target: Twin) -> None:
    path = f"{target.path()}-missing"
    if target.filler.random.random() < 0.5:
        target.write("missing", "DELETE", lambda c, p: c.delete(path, check=False))
    else:
        patch = {"metadata": {"labels": {"a": "b"}}}
        target.write("missing", "UPDATE", lambda c, p: c.patch(path, patch, check=False))


def _taken_name(target: Twin) -> None:
    document = {key: one for key, one in _document(target).items() if key != "status"}
    document["metadata"] = {"name": target.name}
    collection = target.resource.path(NAMESPACE)
    target.write("taken name", "CREATE", lambda c, p: c.post(collection, document, check=False))


def _no_version(target: Twin) -> None:
    document = _document(target)
    document["metadata"].pop("resourceVersion", None)
    target.write("no version", "UPDATE", lambda c, p: c.put(target.path(), document, check=False))


def _own_uid(target: Twin) -> None:
    options = {"preconditions": {"uid": "another"}}
    target.write("own uid", "DELETE", lambda c, p: c.delete(target.path(), options, check=False))


_CLASHES = (_stale_put, _stale_patch, _missing, _taken_name, _no_version, _own_uid)


def _live(pair: Pair) -> None:
    seed = pair.real.filler.random.random()
    pair.fake.filler.random.random()
    generation = (None, None, 1, 7)[int(seed * 4)]
    pair.do(lambda one: one.create(generation=generation, finalizer=seed < 0.2))
    for number in range(WRITES_PER_OBJECT):
        pair.do(random_write)
        if number % 4 == 0:
            clash = _CLASHES[(number // 4 + int(seed * 6)) % len(_CLASHES)]
            pair.do(clash)
    pair.do(finish)


@pytest.fixture(scope="module")
def fake() -> Iterator[Client]:
    with FakeApiServer(*definitions()["items"], user="system:admin") as server:
        server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        host, _, port = server.url.removeprefix("http://").partition(":")
        client = PlainClient(Endpoint(host, int(port), "", ""))
        yield client
        client.close()


def _lives(resource: ServedResource) -> int:
    return 1 + 2 * len({*SUBRESOURCE_WRITES, "eviction"} & resource.subresources.keys())


@pytest.mark.parametrize(
    ("every", "at_least"), [(3, 700), pytest.param(1, 2_000, marks=pytest.mark.nightly)]
)
def test_random_writes_have_the_same_generations(
    every_api: ControlPlane, served: list[ServedResource], fake: Client, every: int, at_least: int
):
    """Of one resource in so many."""
    space = {"metadata": {"name": NAMESPACE}}
    every_api.client.post("/api/v1/namespaces", space, check=False)
    resources = [one for one in served[::every] for _ in range(_lives(one))]
    pairs = [
        Pair(every_api.client, fake, resource, SEED * 1_000 + index)
        for index, resource in enumerate(resources)
    ]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(_live, pairs))
    disagreements = [one for pair in pairs for one in pair.disagreements]
    checked = sum(pair.checked for pair in pairs)
    left_out = sum(pair.left_out for pair in pairs)
    words = Counter(one[0] for pair in pairs for one in pair.fake.answers if one[2])
    print(
        f"\nseed {SEED}: {checked} writes of {len({notation(one) for one in resources})} resources "
        f"compared, {len(disagreements)} disagreements, {left_out} writes left out\n{dict(words)}"
    )
    assert not disagreements, "\n".join(disagreements)
    assert checked >= at_least
    assert sum(pair.is_lost for pair in pairs) <= len(pairs) / 20
    assert left_out < checked / 5
    assert every > 1 or not (WRITTEN_WORDS | OWN_WORDS) - words.keys()
