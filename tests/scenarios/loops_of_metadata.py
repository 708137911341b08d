"""Loops in labels, annotations, finalizers and owners, by writers and by webhooks."""

from tests.controlplane.webhook_listener import no_patch
from tests.e2e.culprits import deployment
from tests.scenarios import culprits
from tests.scenarios.catalogue import scenario
from tests.scenarios.scene import Hook, Json, Policy, Scene

_IF_NEEDED = {"reinvocationPolicy": "IfNeeded"}
_SELECTS_NONE = {"objectSelector": {"matchLabels": {"example.org/looked-at": "yes"}}}
_FINALIZER = "example.org/hold"


@scenario()
def label_of_two_wills(scene: Scene) -> None:
    web = scene.create("apps/v1/deployments", deployment("web"))
    for turn in range(14):
        user, tier = (("gitops", "gold"), ("operator", "silver"))[turn % 2]
        web.patch(user, {"metadata": {"labels": {"example.org/tier": tier}}})
        scene.pause(0.1)


@scenario()
def annotation_of_two_wills(scene: Scene) -> None:
    """In an object without spec; each PUTs what it has read, with its own value."""
    settings = scene.create("v1/configmaps", {"metadata": {"name": "settings"}, "data": {"a": "1"}})
    for turn in range(14):
        user, value = (("gitops", "low"), ("operator", "high"))[turn % 2]

        def change(found: Json, value: str = value) -> None:
            found["metadata"].setdefault("annotations", {})["example.org/level"] = value

        settings.put(user, change)
        scene.pause(0.1)


@scenario()
def annotation_of_a_deployment_of_two_wills(scene: Scene) -> None:
    """Generation moves with it, for a Deployment's annotations count."""
    web = scene.create("apps/v1/deployments", deployment("web"))
    for turn in range(14):
        user, value = (("gitops", "low"), ("operator", "high"))[turn % 2]
        web.patch(user, {"metadata": {"annotations": {"example.org/level": value}}})
        scene.pause(0.1)


@scenario()
def label_that_one_sets_and_another_takes_away(scene: Scene) -> None:
    account = scene.create("v1/serviceaccounts", {"metadata": {"name": "robot"}})
    for _ in range(8):
        account.patch("labeller", {"metadata": {"labels": {"example.org/team": "a"}}})
        scene.pause(0.1)
        account.put("gitops", lambda found: found["metadata"].pop("labels", None))
        scene.pause(0.1)


@scenario()
def finalizer_added_and_removed_by_turns(scene: Scene) -> None:
    widget = scene.widget()
    for _ in range(8):
        widget.put("backup", lambda found: found["metadata"].update(finalizers=[_FINALIZER]))
        scene.pause(0.1)
        widget.put("cleaner", lambda found: found["metadata"].pop("finalizers", None))
        scene.pause(0.1)


@scenario()
def controller_reference_of_two_controllers(scene: Scene) -> None:
    """Each adopts the object whenever it is not its own."""
    settings = scene.create("v1/configmaps", {"metadata": {"name": "settings"}})
    owners = []
    for name in ("red", "blue"):
        uid = scene.widget(name).get()["metadata"]["uid"]
        owner = {"apiVersion": "example.org/v1", "kind": "Widget", "name": name, "uid": uid}
        owners.append({**owner, "controller": True})
    for turn in range(14):
        user, owner = ("red-controller", "blue-controller")[turn % 2], owners[turn % 2]
        settings.put(user, lambda found, one=owner: found["metadata"].update(ownerReferences=[one]))
        scene.pause(0.1)


@scenario(
    Policy(
        "labels-gold",
        ("configmaps",),
        "request.userInfo.username == 'gitops'",
        {
            "patchType": "ApplyConfiguration",
            "applyConfiguration": {
                "expression": 'Object{metadata: Object.metadata{labels: {"tier": "gold"}}}'
            },
        },
    )
)
def label_of_a_policy_and_an_operator(scene: Scene) -> None:
    settings = scene.create("v1/configmaps", {"metadata": {"name": "settings"}})
    for turn in range(8):  # gitops asks for other data, and for nothing else
        settings.patch("gitops", {"data": {"turn": str(turn)}})
        scene.pause(0.1)
        settings.patch("operator", {"metadata": {"labels": {"tier": "silver"}}})
        scene.pause(0.1)


@scenario(
    Hook("aaa-looks", no_patch, ("serviceaccounts",), _SELECTS_NONE),
    Hook("mmm-tidy", culprits.takes_label_away("example.org/team"), ("serviceaccounts",)),
)
def label_taken_away_by_a_webhook(scene: Scene) -> None:
    account = scene.create("v1/serviceaccounts", {"metadata": {"name": "robot"}})
    for _ in range(10):
        account.patch("labeller", {"metadata": {"labels": {"example.org/team": "a"}}})
        scene.pause(0.1)


@scenario(Hook("mmm-knows-better", culprits.sets_annotation("level", "low"), ("widgets",)))
def annotation_rewritten_by_a_webhook(scene: Scene) -> None:
    widget = scene.widget()
    for size in range(10):  # the deployer has other work as well
        widget.patch("operator", {"metadata": {"annotations": {"level": "high"}}})
        if size % 3 == 0:
            widget.spec("deployer", size=size + 2)
        scene.pause(0.1)


@scenario(Hook("mmm-tidy", culprits.takes_finalizers_away, ("widgets",)))
def finalizer_taken_away_by_a_webhook(scene: Scene) -> None:
    widget = scene.widget()
    for _ in range(10):
        widget.patch("backup", {"metadata": {"finalizers": [_FINALIZER]}})
        scene.pause(0.1)


@scenario(
    Hook("mmm-journal", culprits.appends_to_annotation("journal"), ("configmaps",), _IF_NEEDED),
    Hook("nnn-copier", culprits.copies_annotation("journal", "copy"), ("configmaps",)),
)
def annotation_added_to_at_each_call(scene: Scene) -> None:
    """Once more when it is reinvoked, since the copier has changed the object."""
    settings = scene.create("v1/configmaps", {"metadata": {"name": "settings"}, "data": {"a": "1"}})
    for turn in range(8):
        settings.patch("deployer", {"data": {"a": str(turn)}})
        scene.pause(0.1)


@scenario(Hook("mmm-journal", culprits.appends_to_annotation("journal"), ("configmaps",)))
def annotation_added_to_though_nothing_is_asked(scene: Scene) -> None:
    """Each write of what is there already becomes a change."""
    settings = scene.create("v1/configmaps", {"metadata": {"name": "settings"}, "data": {"a": "1"}})
    for _ in range(8):
        settings.patch("gitops", {"data": {"a": "1"}})
        scene.pause(0.1)


@scenario(Hook("mmm-journal", culprits.appends_to_annotation("journal"), ("deployments",)))
def annotation_of_a_deployment_added_to_at_each_call(scene: Scene) -> None:
    web = scene.create("apps/v1/deployments", deployment("web"))
    for replicas in range(2, 10):
        web.spec("gitops", replicas=replicas % 3)
        scene.pause(0.3)
