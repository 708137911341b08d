"""Loops that a MutatingAdmissionPolicy makes before anybody sees the request."""

from tests.e2e.culprits import pod
from tests.scenarios.catalogue import scenario
from tests.scenarios.scene import Policy, Scene


@scenario(
    Policy(
        "pins-observed-generation",
        ("widgets/status",),
        "request.operation == 'UPDATE'",
        {
            "patchType": "JSONPatch",
            "jsonPatch": {
                "expression": '[JSONPatch{op: "add", path: "/status/observedGeneration", value: 1}]'
            },
        },
    )
)
def observed_generation_pinned_by_a_policy(scene: Scene) -> None:
    widget = scene.widget()
    for size in range(2, 11):  # the controller does all it can
        made = widget.spec("deployer", size=size)
        seen = made["metadata"]["generation"]
        widget.status("widget-controller", observedGeneration=seen, replicas=size)
        widget.status("widget-controller", observedGeneration=seen, lastRun=str(scene.tick()))
        scene.pause(0.2)


@scenario(
    Policy(
        "suspends-batch",
        ("cronjobs",),
        "request.userInfo.username == 'gitops'",
        {
            "patchType": "ApplyConfiguration",
            "applyConfiguration": {"expression": "Object{spec: Object.spec{suspend: true}}"},
        },
    )
)
def suspended_by_a_policy_and_resumed_by_an_operator(scene: Scene) -> None:
    template = {"spec": {"template": {"spec": pod("one")["spec"] | {"restartPolicy": "Never"}}}}
    nightly = {"schedule": "0 3 1 1 *", "suspend": False, "jobTemplate": template}
    job = scene.create("batch/v1/cronjobs", {"metadata": {"name": "nightly"}, "spec": nightly})
    for _ in range(8):  # gitops asks for another deadline, and for nothing else
        job.spec("gitops", startingDeadlineSeconds=scene.tick() + 100)
        scene.pause(0.1)
        job.spec("batch-operator", suspend=False)
        scene.pause(0.1)
