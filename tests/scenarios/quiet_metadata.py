"""Labels, annotations, finalizers and owners that move as they should."""

from tests.e2e.culprits import deployment
from tests.scenarios import culprits
from tests.scenarios.catalogue import scenario
from tests.scenarios.scene import Hook, Json, Scene, Stored

_FINALIZER = "example.org/hold"


def _annotate(stored: Stored, user: str, **values: str | None) -> None:
    named = {f"example.org/{key}": value for key, value in values.items()}
    stored.patch(user, {"metadata": {"annotations": named}})


def _label(stored: Stored, user: str, **values: str | None) -> None:
    named = {f"example.org/{key}": value for key, value in values.items()}
    stored.patch(user, {"metadata": {"labels": named}})


def _settings(scene: Scene) -> Stored:
    return scene.create("v1/configmaps", {"metadata": {"name": "settings"}, "data": {"a": "1"}})


@scenario()
def leader_elected_in_an_annotation(scene: Scene) -> None:
    """Two candidates take turns, and each renews what it has."""
    lock = _settings(scene)
    for turn in range(24):
        user = ("controller-0", "controller-1")[turn // 3 % 2]
        record = f'{{"holderIdentity":"{user}","leaseDurationSeconds":15}}'
        key = "control-plane.alpha.kubernetes.io/leader"
        lock.patch(user, {"metadata": {"annotations": {key: record}}})
        scene.pause(0.05)


@scenario()
def revisions_stamped_by_a_sync_tool(scene: Scene) -> None:
    """On each pass a new one; meanwhile an operator writes labels of its own."""
    widget = scene.widget()
    for turn in range(15):
        _annotate(widget, "gitops", revision=f"{turn * 7919:040x}", synced=f"pass-{turn}")
        if turn % 2:
            _label(widget, "operator", shard=str(turn % 4))
        scene.pause(0.05)


@scenario()
def canary_weights_of_one_writer(scene: Scene) -> None:
    """To and fro, as a rollout that is aborted and tried again; others read and label."""
    route = _settings(scene)
    for turn in range(16):
        _annotate(route, "rollouts", weight=("10", "50")[turn % 2])
        if turn % 4 == 0:
            _label(route, "inventory", seen=str(turn))
        scene.pause(0.05)


@scenario()
def finalizers_added_once_and_removed_once(scene: Scene) -> None:
    """Eight objects live and end, one after the other, under one name too."""
    for turn in range(8):
        widget = scene.widget(("one", f"two-{turn}")[turn % 2])
        widget.put("operator", lambda found: found["metadata"].update(finalizers=[_FINALIZER]))
        widget.status("operator", observedGeneration=1)
        scene.plane.client.as_user("deployer", ["system:masters"]).delete(widget.path)
        widget.put("operator", lambda found: found["metadata"].pop("finalizers"))
        scene.pause(0.1)


@scenario()
def protected_while_it_is_used(scene: Scene) -> None:
    """One controller adds its finalizer for each backup and removes it; users label meanwhile."""
    widget = scene.widget()
    for turn in range(8):
        widget.put("backup", lambda found: found["metadata"].update(finalizers=[_FINALIZER]))
        _label(widget, "somebody", turn=str(turn))
        widget.put("backup", lambda found: found["metadata"].pop("finalizers"))
        scene.pause(0.1)


@scenario()
def labels_of_two_owners(scene: Scene) -> None:
    """Each moves its own label to and fro, and leaves the other's alone."""
    widget = scene.widget()
    for turn in range(20):
        value = str(turn // 2 % 2)
        if turn % 2:
            _label(widget, "red", red=value)
        else:
            _label(widget, "blue", blue=value)
        scene.pause(0.05)


@scenario(
    Hook("aaa-labels", culprits.labels, ("configmaps", "widgets")),
    Hook("bbb-defaults", culprits.defaults_a_field, ("widgets",)),
)
def label_added_by_a_webhook(scene: Scene) -> None:
    """A client PUTs its manifest, which has no such label; the webhook adds it each time."""
    settings, widget = _settings(scene), scene.widget()

    def manifest(found: Json) -> None:
        found["metadata"] = {
            key: found["metadata"][key] for key in ("name", "resourceVersion", "uid")
        }
        found["metadata"]["labels"] = {"app": "settings"}

    for turn in range(12):
        settings.put("gitops", manifest)
        widget.put("gitops", manifest)
        settings.patch("deployer", {"data": {"a": str(turn)}})
        scene.pause(0.05)


@scenario()
def bookkeeping_of_kubectl_and_of_deployments(scene: Scene) -> None:
    """Two people roll out by turns, and say why; the controller counts revisions."""
    web = scene.create("apps/v1/deployments", deployment("web", replicas=1))
    for turn in range(6):
        user, image = ("alice", "bob")[turn % 2], f"image:{turn + 2}"
        why = {"kubernetes.io/change-cause": f"{user} has set the image"}
        container = {"name": "c", "image": image}
        web.patch(user, {"metadata": {"annotations": why}})
        web.put(user, lambda found, one=container: _set_image(found, one))
        scene.pause(0.4)


def _set_image(found: Json, container: Json) -> None:
    (first,) = found["spec"]["template"]["spec"]["containers"]
    first.update(container)


@scenario()
def refresh_asked_for_and_done(scene: Scene) -> None:
    """An annotation asks for something, and whoever has done it takes it away."""
    widget = scene.widget()
    for turn in range(6):
        _annotate(widget, "somebody", refresh="now")
        widget.status("operator", observedGeneration=1, refreshed=turn)
        _annotate(widget, "operator", refresh=None)
        scene.pause(0.3)


@scenario(Hook("mmm-audits", culprits.writes_down_who, ("widgets", "configmaps")))
def who_wrote_last_is_written_down(scene: Scene) -> None:
    """By a webhook; two users have fields of their own."""
    widget = scene.widget()
    for turn in range(20):
        user, name = (("red", "left"), ("blue", "right"))[turn % 2]
        widget.spec(user, **{name: turn})
        scene.pause(0.05)


@scenario(Hook("mmm-stamps", culprits.stamps_annotation, ("configmaps",)))
def stamped_by_a_webhook_when_it_changes(scene: Scene) -> None:
    settings = _settings(scene)
    for turn in range(12):
        settings.patch("deployer", {"data": {"a": str(turn)}})
        scene.pause(0.05)


@scenario()
def stamped_by_two_tools_beside_their_own_work(scene: Scene) -> None:
    """Each writes its name wherever it has changed something."""
    widget = scene.widget()
    for turn in range(16):
        user, name = (("red", "left"), ("blue", "right"))[turn % 2]
        stamp = {"annotations": {"example.org/managed-by": user}}
        widget.patch(user, {"metadata": stamp, "spec": {name: turn}})
        scene.pause(0.05)


@scenario()
def label_corrected_once(scene: Scene) -> None:
    widget = scene.widget()
    for user, value in (("gitops", "a"), ("somebody", "b"), ("gitops", "a")):
        _label(widget, user, team=value)
        scene.pause(0.1)
    for turn in range(6):
        _label(widget, "gitops", turn=str(turn))


@scenario()
def two_tools_of_one_user(scene: Scene) -> None:
    """One person with two tools, now the one and now the other."""
    widget = scene.widget()
    for turn in range(12):
        tool, value = (("kubectl", "blue"), ("terraform", "green"))[turn % 2]
        body = {"metadata": {"labels": {"example.org/live": value}}}
        widget.patch("somebody", body, fieldManager=tool)
        scene.pause(0.1)


@scenario(Hook("mmm-lowers", culprits.lowers_annotation("version"), ("widgets",)))
def annotation_normalised_and_accepted(scene: Scene) -> None:
    """A webhook writes each new value as it likes, and nobody insists."""
    widget = scene.widget()
    for turn in range(10):
        _annotate(widget, "gitops", version=f"V{turn}")
        scene.pause(0.05)
