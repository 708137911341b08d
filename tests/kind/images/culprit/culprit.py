"""An admission webhook that clears status.observedGeneration, as old operators do.

/zero    writes 0, as a Go type does whose field is always written
/remove  leaves it out, as a Go type does that does not know the field
"""

import base64
import json
import ssl
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_POINTER = "/status/observedGeneration"


def patch(path, request):
    """The JSON Patch for one request; empty where there is nothing to clear."""
    status = (request.get("object") or {}).get("status")
    if request["operation"] != "UPDATE" or status is None:
        return []
    if path == "/zero":
        return [{"op": "add", "path": _POINTER, "value": 0}]
    if "observedGeneration" in status:
        return [{"op": "remove", "path": _POINTER}]
    return []


class Handler(BaseHTTPRequestHandler):
    """Answers one AdmissionReview after the other on a connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):  # the name http.server asks for
        """Allow the request, with the patch that its path names."""
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        response = {"uid": review["request"]["uid"], "allowed": True}
        operations = patch(self.path.partition("?")[0], review["request"])
        if operations:
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(json.dumps(operations).encode()).decode()
        answer = {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}
        content = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_request(self, code="-", size="-"):
        """Says nothing of each request."""


class Server(ThreadingHTTPServer):
    """Speaks TLS; the handshake is in the connection's own thread."""

    daemon_threads = True
    request_queue_size = 128
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    def finish_request(self, request, client_address):
        """Wrap the connection first."""
        with self.tls.wrap_socket(request, server_side=True) as wrapped:
            self.RequestHandlerClass(wrapped, client_address, self)


if __name__ == "__main__":
    Server.tls.load_cert_chain("/tls/tls.crt", "/tls/tls.key")
    Server(("", 8443), Handler).serve_forever()
