"""The answer to an AdmissionReview: always allowed, perhaps with a JSON Patch.

Source: apiserver pkg/admission/plugin/webhook/request/admissionreview.go:VerifyAdmissionResponse
(uid echoed, apiVersion and kind as in the request, patch and patchType both or neither).
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from genguard.admission.review import PatchOperation

_encoder = msgspec.json.Encoder()


def encode_allowed(
    api_version: str,
    uid: str,
    *,
    patch: Sequence[PatchOperation] = (),
    audit_annotations: Mapping[str, str] | None = None,
    warnings: Sequence[str] = (),
) -> bytes:
    """Allow the request `uid`; without operations the answer carries no patch at all."""
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if patch:
        response |= {"patch": b64encode(_encoder.encode(patch)).decode(), "patchType": "JSONPatch"}
    if audit_annotations:
        response["auditAnnotations"] = audit_annotations
    if warnings:
        response["warnings"] = warnings
    review = {"apiVersion": api_version, "kind": "AdmissionReview", "response": response}
    return _encoder.encode(review)


def encode_rejection(reason: str, field: str, code: str) -> bytes:
    """The body of a 4xx: what is wrong, where, and that nothing was examined."""
    return _encoder.encode({"error": code, "field": field, "message": reason})
