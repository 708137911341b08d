"""Which containers of a pod surely run an earlier image, and of which nobody can say so."""

from typing import Any

from genguard.status.evaluate import evaluate
from genguard.status.pod_images import (
    MOST_BYTES,
    MOST_CONTAINERS,
    canonical_image,
    find_old_containers,
    remember_images,
)
from genguard.status.view import Past
from tests.cases_loader import table
from tests.statuses import NOW
from tests.unit.status.story import Story


def pod(wanted: str, **shown: Any) -> dict[str, Any]:
    status = {"name": "web", "containerID": "containerd://c1", **shown}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "one", "generation": 2},
        "spec": {"containers": [{"name": "web", "image": wanted}]},
        "status": {
            "phase": "Running",
            "observedGeneration": 2,
            "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 2}],
            "containerStatuses": [status],
        },
    }


def old(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [one.path for one in find_old_containers(remember_images(b"", before), after)]


@table("status/images.yaml", "image", "name")
def test_an_image_has_one_full_name(case):
    assert canonical_image(case["image"]) == case["name"], case.because


@table("status/old_containers.yaml", "before", "after", "was", "shown", "old")
def test_only_a_container_that_was_there_before_the_change_is_old(case):
    paths = old(pod(case["before"], **case["was"]), pod(case["after"], **case["shown"]))
    assert paths == ["status.containerStatuses[web].image"] * case["old"], case.because


def test_what_is_remembered_is_the_image_of_the_first_sight():
    """Of two changes in a row, the container still is the one from before both."""
    known = remember_images(b"", pod("nginx:1"))
    known = remember_images(known, pod("nginx:2"))
    assert list(find_old_containers(known, pod("nginx:3")))
    assert not list(find_old_containers(known, pod("nginx:1")))


def test_containers_that_are_gone_are_forgotten():
    known = remember_images(b"", pod("nginx:1"))
    assert len(remember_images(known, pod("nginx:2", containerID="containerd://c2"))) == len(known)
    assert remember_images(known, {**pod("nginx:2"), "status": {}}) == b""


def test_a_sidecar_is_replaced_as_a_container_is_and_an_init_container_is_not():
    def with_init(image: str, policy: str | None) -> dict[str, Any]:
        found = pod("nginx:1")
        found["spec"]["initContainers"] = [{"name": "i", "image": image, "restartPolicy": policy}]
        found["status"]["initContainerStatuses"] = [{"name": "i", "containerID": "containerd://i"}]
        return found

    path = "status.initContainerStatuses[i].image"
    assert old(with_init("a:1", "Always"), with_init("a:2", "Always")) == [path]
    assert old(with_init("a:1", None), with_init("a:2", None)) == []


@table("status/no_pods.yaml", "document")
def test_what_is_no_pod_or_a_malformed_one_is_not_evaluated(case):
    assert remember_images(b"", case["document"]) == b"", case.because
    assert list(find_old_containers(remember_images(b"", pod("nginx:1")), case["document"])) == []


def test_a_pod_with_very_many_containers_takes_a_bounded_memory():
    found = pod("nginx:1")
    count = 3 * MOST_CONTAINERS
    found["spec"]["containers"] = [{"name": f"c{n}", "image": "i"} for n in range(count)]
    found["status"]["containerStatuses"] = [
        {"name": f"c{n}", "containerID": f"containerd://{n}"} for n in range(count)
    ]
    assert len(remember_images(b"", found)) == MOST_BYTES


def evaluated(images: bytes, document: dict[str, Any]) -> Any:
    return evaluate(document, Past(NOW - 60, NOW - 50, 1, 0, images), at=NOW)


def test_an_old_container_blocks_settled_and_not_ready_and_no_image_is_named():
    known = remember_images(b"", pod("secret.example.org/a:1"))
    view = evaluated(known, pod("secret.example.org/a:2"))
    assert (view.ready, view.settled) == (True, False)
    (reason,) = view.reasons
    assert "example" not in str(reason)
    assert str(reason).startswith("status.containerStatuses[web].image earlier, want that of spec")


def test_a_pod_that_has_ended_waits_for_nothing():
    for phase in ("Succeeded", "Failed"):
        document = pod("nginx:2")
        document["status"]["phase"] = phase
        assert evaluated(remember_images(b"", pod("nginx:1")), document).settled


def test_without_a_past_a_pod_is_evaluated_by_what_it_shows():
    assert evaluate(pod("nginx:2", image="nginx:1"), at=NOW).settled


def test_what_is_remembered_goes_with_the_object():
    story = Story("pods")
    found = pod("nginx:1")
    story.play({"at": 0, "is_there": {"spec": found["spec"], "status": found["status"]}})
    past = story.tracking.past("object-1", 2.0)
    assert past is not None
    assert past.images
    story.tracking.forget("object-1")
    assert story.tracking.past("object-1", 3.0) is None
