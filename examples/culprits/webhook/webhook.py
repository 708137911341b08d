"""An admission webhook that misbehaves. It needs nothing but Python. Its path says how it behaves.

/zero-observed-generation  writes 0 into status.observedGeneration of every update, as a Go type
                           does whose field is always written
/remove-observed-generation
                           removes it, as a Go type does that does not know the field
/strip-label/NAME          removes the label NAME, as a tool does that removes what it does not know

python webhook.py [--port 8443] [--tls /tls]    the folder has tls.crt and tls.key
"""

import argparse
import base64
import json
import ssl
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def patch(path, request):
    """The JSON Patch for one request; empty where there is nothing to break."""
    new = request.get("object") or {}
    behaviour, _, argument = path.strip("/").partition("/")
    status = new.get("status") if request["operation"] == "UPDATE" else None
    if behaviour == "zero-observed-generation" and status is not None:
        return [{"op": "add", "path": "/status/observedGeneration", "value": 0}]
    if behaviour == "remove-observed-generation" and "observedGeneration" in (status or {}):
        return [{"op": "remove", "path": "/status/observedGeneration"}]
    if behaviour == "strip-label" and argument in new.get("metadata", {}).get("labels", {}):
        return [{"op": "remove", "path": f"/metadata/labels/{argument}"}]
    return []


class Handler(BaseHTTPRequestHandler):
    """Allows every request, with the patch that its path names."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        """Answer one AdmissionReview."""
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
        """Say nothing of each request."""


class Server(ThreadingHTTPServer):
    """Speaks TLS; each handshake is in its connection's own thread."""

    daemon_threads = True
    request_queue_size = 128
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    def finish_request(self, request, client_address):
        """Wrap the connection first."""
        with self.tls.wrap_socket(request, server_side=True) as wrapped:
            self.RequestHandlerClass(wrapped, client_address, self)


def main():
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=8443)
    parser.add_argument("--tls", type=Path, default=Path("/tls"))
    flags = parser.parse_args()
    Server.tls.load_cert_chain(flags.tls / "tls.crt", flags.tls / "tls.key")
    with Server(("", flags.port), Handler) as server:
        print(f"serving on port {server.server_port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
