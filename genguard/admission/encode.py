"""The answer to an AdmissionReview: always allowed, perhaps with a JSON Patch.

Source: apiserver pkg/admission/plugin/webhook/request/admissionreview.go:VerifyAdmissionResponse
(uid echoed, apiVersion and kind as in the request, patch and patchType both or neither).
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence

import msgspec

from genguard.admission.review import PatchOperation


class _Response(msgspec.Struct, rename="camel", omit_defaults=True):
    uid: str
    allowed: bool
    patch: str | None = None
    patch_type: str | None = None
    audit_annotations: Mapping[str, str] | None = None
    warnings: Sequence[str] | None = None


class _Review(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    response: _Response


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
    return _encoder.encode(
        _Review(
            api_version,
            "AdmissionReview",
            _Response(
                uid,
                allowed=True,
                patch=b64encode(_encoder.encode(patch)).decode() if patch else None,
                patch_type="JSONPatch" if patch else None,
                audit_annotations=audit_annotations or None,
                warnings=warnings or None,
            ),
        )
    )


def encode_refusal(reason: str, field: str, code: str) -> bytes:
    """The body of a 4xx: what is wrong, where, and that nothing was judged."""
    return _encoder.encode({"error": code, "field": field, "message": reason})
