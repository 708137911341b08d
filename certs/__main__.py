"""Issue a serving certificate: `python -m certs issue --dir tls`.

Writes  tls.crt, tls.key, ca.crt and ca.key, or keeps a pair that is still good
Prints  the base64 caBundle to standard output, a log line to standard error
"""

import argparse
import base64
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from certs import FIRST_LEAF_LIFETIME, CertificateError, ensure, installed_names


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; raises SystemExit when nothing can be issued."""
    parser = argparse.ArgumentParser(prog="python -m certs", description=__doc__)
    issue = parser.add_subparsers(required=True).add_parser("issue")
    issue.add_argument("--dir", type=Path, required=True, help="the folder for the pair")
    issue.add_argument("--service", default="genguard", help="the Service to call")
    issue.add_argument("--namespace", default="genguard-system", help="its namespace")
    issue.add_argument("--name", action="append", default=[], help="another name or IP address")
    it = parser.parse_args(arguments)
    names = (*installed_names(it.service, it.namespace), *it.name)
    try:
        done = ensure(it.dir, names=names, at=datetime.now(UTC), leaf_lifetime=FIRST_LEAF_LIFETIME)
    except CertificateError as error:
        sys.exit(f"certs: {error}")
    sys.stderr.write(f"certs: {done.action} in {it.dir}. {done.reason}".rstrip() + "\n")
    sys.stdout.write(base64.b64encode(done.pair.ca_pem or b"").decode() + "\n")


if __name__ == "__main__":
    main()
