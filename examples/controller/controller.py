"""A controller: it makes backups, and reports what it has seen in status.observedGeneration."""


def reconcile(cluster, name, backup):
    """Bring one Backup to what its spec asks for; `backup` makes a copy of a volume.

    Does nothing when this generation has been observed already: a label or a status that somebody
    writes is no reason to copy a volume again.
    """
    found = cluster.get(name)
    generation = found["metadata"]["generation"]
    if found.get("status", {}).get("observedGeneration") == generation:
        return
    backup(found["spec"]["volume"])
    ready = {"type": "Ready", "status": "True", "observedGeneration": generation}
    found["status"] = {"observedGeneration": generation, "conditions": [ready]}
    cluster.update_status(found)
