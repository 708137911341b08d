"""One object as a line of `genguard status -f FILE -o json`: our answer beside the other tools'."""

from typing import Any

from webhook.status.view import StatusView


def line(
    view: StatusView, kstatus: str | None, argo: str | None, rollout: str | None
) -> dict[str, Any]:
    """The JSON object of one line; its keys are an interface and always all there.

    The other tools' answers are None where they have none for the kind.
    """
    return {
        "kind": view.kind,
        "namespace": view.namespace,
        "name": view.name,
        "ready": view.ready,
        "settled": view.settled,
        "health": view.health,
        "progress": view.progress,
        "tableReady": view.table_ready,
        "kstatus": kstatus,
        "argo": argo,
        "rollout": rollout,
        "reconciledGeneration": view.reconciled_generation,
        "terminatingReplicas": view.terminating_replicas,
        "reasons": [str(reason) for reason in view.reasons],
    }
