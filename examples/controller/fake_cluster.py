"""A Kubernetes API in memory that counts generation as the real one does."""

import copy

from webhook.generation import predict

RESOURCE = "backups.example.org"


class FakeCluster:
    """Keeps custom resources of one kind, which has a status subresource."""

    def __init__(self):
        self.objects = {}

    def create(self, name, spec):
        """POST: the status is left out, generation is 1."""
        new = {"metadata": {"name": name}, "spec": copy.deepcopy(spec)}
        self.objects[name] = self._counted("CREATE", new, None)
        return self.get(name)

    def get(self, name):
        """GET."""
        return copy.deepcopy(self.objects[name])

    def update(self, new):
        """PUT of the object: the status that it has is not taken."""
        old = self.objects[new["metadata"]["name"]]
        stored = copy.deepcopy(new) | {"status": old.get("status", {})}
        self.objects[new["metadata"]["name"]] = self._counted("UPDATE", stored, old)

    def update_status(self, new):
        """PUT of the status: nothing else is taken."""
        old = self.objects[new["metadata"]["name"]]
        stored = copy.deepcopy(old) | {"status": copy.deepcopy(new["status"])}
        self.objects[new["metadata"]["name"]] = self._counted("UPDATE", stored, old, "status")

    def _counted(self, operation, new, old, subresource=""):
        found = predict(
            operation, RESOURCE, new, old, subresource=subresource, status_subresource=True
        )
        new["metadata"]["generation"] = found.generation
        return new
