"""Objects that seem stuck are read, where no watch shows them: they may be done or gone."""

import aiohttp
import msgspec
import pytest

from genguard.objects.fields import fields_of
from genguard.status.blocking import OBSERVES_SECONDS
from genguard.status.tracking import Tracking
from webhook.cluster.rest import RefusedError
from webhook.cluster.stuck_objects import AGAIN_SECONDS, AHEAD_SECONDS, MOST_READS, StuckObjects

ROOT = "/apis/apps/v1"


def document(name: str, observed: int, version: int = 10, uid: str = ""):
    counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    metadata = {"name": name, "namespace": "shop", "generation": 2}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {**metadata, "uid": uid or f"uid-{name}", "resourceVersion": str(version)},
        "spec": {"replicas": 1},
        "status": {
            "observedGeneration": observed,
            "conditions": [{"type": "Available", "status": "True"}],
            **dict.fromkeys(counts, 1),
        },
    }


class Scene:
    """An API server with objects, what this replica tracks of them, and a clock."""

    def __init__(self, *names: str, watched: bool = False) -> None:
        self.now = 1_000.0
        self.tracking = Tracking()
        self.stored: dict[str, dict] = {}
        self.trouble: Exception | None = None
        self.read_paths: list[str] = []
        self.located: list[str] = []
        for name in names:
            self.tracking.record_stored(
                "apps", "deployments", "Deployment", fields_of(document(name, 1)), self.now
            )
            self.stored[f"{ROOT}/namespaces/shop/deployments/{name}"] = document(name, 2, 11)
        if not watched:
            self.tracking._watched.clear()
        self.reading = StuckObjects(self.tracking, self, self.locate, lambda: self.now)

    async def locate(self, resource: str) -> str:
        self.located.append(resource)
        return f"{ROOT}/deployments"

    async def read(self, path: str) -> bytes:
        self.read_paths.append(path)
        if self.trouble is not None:
            raise self.trouble
        if path not in self.stored:
            raise RefusedError(404, "not found")
        return msgspec.json.encode(self.stored[path])

    async def turn(self, seconds: float) -> list[str]:
        self.now += seconds
        before = len(self.read_paths)
        await self.reading.turn()
        return [one.rpartition("/")[2] for one in self.read_paths[before:]]

    @property
    def unsettled(self) -> set[str]:
        return {uid for uid, _ in self.tracking.unsettled()}


async def test_what_another_replica_saw_settled_is_settled_before_it_counts_as_stuck():
    scene = Scene("web")
    assert await scene.turn(OBSERVES_SECONDS - AHEAD_SECONDS - 1) == []
    assert await scene.turn(1) == ["web"]
    assert not scene.unsettled


async def test_what_is_gone_is_forgotten_and_so_is_what_another_object_replaced():
    scene = Scene("gone", "replaced")
    path = f"{ROOT}/namespaces/shop/deployments"
    del scene.stored[f"{path}/gone"]
    scene.stored[f"{path}/replaced"] = document("replaced", 1, 11, uid="another")
    assert sorted(await scene.turn(OBSERVES_SECONDS)) == ["gone", "replaced"]
    assert len(scene.tracking) == 0


async def test_what_is_stuck_stays_and_is_read_again_after_a_while():
    scene = Scene("web")
    scene.stored[f"{ROOT}/namespaces/shop/deployments/web"] = document("web", 1)
    assert await scene.turn(OBSERVES_SECONDS) == ["web"]
    assert scene.unsettled == {"uid-web"}
    assert await scene.turn(AGAIN_SECONDS - 1) == []
    assert await scene.turn(1) == ["web"]
    assert scene.located == ["deployments.apps"], "the path of a kind is asked once"


async def test_what_is_being_deleted_is_read_until_it_is_gone():
    scene = Scene("web")
    path = f"{ROOT}/namespaces/shop/deployments/web"
    deleted = document("web", 2, 11)
    deleted["metadata"] |= {"deletionTimestamp": "1970-01-01T00:16:40Z", "finalizers": ["a"]}
    scene.tracking.record_read("uid-web", fields_of(deleted), scene.now)
    scene.stored[path] = deleted
    assert await scene.turn(AHEAD_SECONDS - 1) == []
    assert await scene.turn(1) == ["web"]
    assert scene.unsettled == {"uid-web"}, "a finalizer holds it"
    del scene.stored[path]
    assert await scene.turn(AGAIN_SECONDS) == ["web"]
    assert len(scene.tracking) == 0


async def test_what_a_watch_shows_is_not_read():
    scene = Scene("web", watched=True)
    assert await scene.turn(OBSERVES_SECONDS) == []


async def test_what_its_watch_has_not_shown_is_read_for_it_may_have_been_deleted_before():
    scene = Scene("web", watched=True)
    state = scene.tracking.find("uid-web")
    assert state is not None
    for name in ("old", "older"):
        saved = msgspec.structs.replace(state.state, name=name)
        scene.tracking.restore(f"uid-{name}", state.kind, saved)
    path = f"{ROOT}/namespaces/shop/deployments/old"
    scene.stored[path] = document("old", 1)
    assert sorted(await scene.turn(OBSERVES_SECONDS)) == ["old", "older"]
    assert scene.unsettled == {"uid-web", "uid-old"}
    assert await scene.turn(AGAIN_SECONDS) == [], "from now on the watch shows it"


async def test_of_many_a_few_are_read_in_each_turn_and_all_come_up():
    names = [f"app{number:02}" for number in range(MOST_READS + 2)]
    scene = Scene(*names)
    for path in scene.stored:
        scene.stored[path]["status"]["observedGeneration"] = 1
    first = await scene.turn(OBSERVES_SECONDS)
    assert len(first) == MOST_READS
    assert sorted(first + await scene.turn(2)) == names


@pytest.mark.parametrize(
    ("trouble", "reads"),
    [
        (RefusedError(403, "forbidden"), 2),
        (aiohttp.ClientConnectionError(), 1),
        (TimeoutError(), 1),
    ],
    ids=str,
)
async def test_what_cannot_be_read_stays_as_it_was_seen(trouble, reads):
    scene = Scene("web", "cart")
    scene.trouble = trouble
    assert len(await scene.turn(OBSERVES_SECONDS)) == reads
    assert scene.unsettled == {"uid-web", "uid-cart"}


async def test_a_name_that_leads_elsewhere_is_never_asked_for():
    scene = Scene("..")
    assert await scene.turn(OBSERVES_SECONDS) == []
