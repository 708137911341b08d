"""The same as a kopf operator."""

import kopf


def copy(volume):
    """Make a copy of a volume."""
    print(f"copied {volume}")


@kopf.on.login()
def login(**given):
    """In a cluster as its own account, elsewhere as $KUBECONFIG says."""
    return kopf.login_with_service_account(**given) or kopf.login_with_kubeconfig(**given)


@kopf.on.create("example.org", "v1", "backups")
@kopf.on.update("example.org", "v1", "backups", field="spec")
def reconcile(spec, meta, patch, **_):
    """Make the backup, and report which generation that was."""
    copy(spec["volume"])
    generation = meta["generation"]
    patch.status["observedGeneration"] = generation
    ready = {"type": "Ready", "status": "True", "observedGeneration": generation}
    patch.status["conditions"] = [ready]
