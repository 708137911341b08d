"""Which writes the server takes a status from."""

import json

from genguard.admission.decode import decode_review
from genguard.generation import StatusSubresource
from genguard.rules.rule import is_status_write
from tests.cases_loader import Case, table
from tests.reviews import make_review


@table("admission/takes_status.yaml", "write", "new", "status", "taken")
def test_a_status_is_written_where_the_server_takes_it(case: Case) -> None:
    operation, _, subresource = case["write"].partition(" ")
    asked = make_review(operation, "widgets", case["new"], {}, subresource=subresource)
    request = decode_review(json.dumps(asked).encode())
    status = StatusSubresource[case["status"].upper()]
    assert is_status_write(request, status) is case["taken"], case.because
