"""A controller that insists: it writes a field of one Deployment whenever the field is another.

python insist.py NAMESPACE/NAME spec.replicas=3
python insist.py NAMESPACE/NAME metadata.labels.team=shop

In a pod it uses the pod's ServiceAccount; elsewhere KUBE_SERVER, KUBE_CA and KUBE_TOKEN name the
API server, the file of its authority and the file of a token. It needs nothing but Python.
"""

import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.request

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
SECONDS = 1.0


def main(target, assignment):
    """Look once a second, and write if the value is not the wanted one."""
    namespace, name = target.split("/")
    path, _, text = assignment.partition("=")
    fields = path.split(".")
    wanted = int(text) if text.isdigit() else text
    url = f"{server()}/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
    while True:
        try:
            found = call("GET", url)
            if value(found, fields) != wanted:
                call("PATCH", url, merge_patch(fields, wanted))
                print(f"{path} was {value(found, fields)}, wrote {wanted}", flush=True)
        except urllib.error.URLError as error:
            print(error, flush=True)
        time.sleep(SECONDS)


def value(found, fields):
    """The value of a field; None where it is missing."""
    for field in fields:
        found = (found or {}).get(field)
    return found


def merge_patch(fields, wanted):
    """The smallest merge patch that sets a field."""
    for field in reversed(fields):
        wanted = {field: wanted}
    return wanted


def server():
    """The URL of the API server."""
    inside = f"https://{os.environ.get('KUBERNETES_SERVICE_HOST')}:443"
    return os.environ.get("KUBE_SERVER", inside)


def call(method, url, body=None):
    """Send one request, and return the object of the answer."""
    with open(os.environ.get("KUBE_TOKEN", f"{ACCOUNT}/token")) as file:
        headers = {"Authorization": f"Bearer {file.read().strip()}"}
    headers["Content-Type"] = "application/merge-patch+json"
    trust = ssl.create_default_context(cafile=os.environ.get("KUBE_CA", f"{ACCOUNT}/ca.crt"))
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, content, headers, method=method)
    with urllib.request.urlopen(request, timeout=10, context=trust) as answer:
        return json.load(answer)


if __name__ == "__main__":
    main(*sys.argv[1:])
