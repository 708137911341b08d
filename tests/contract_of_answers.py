"""What the API server checks in an answer, so that genguard never learns it in production.

Source: apiserver pkg/admission/plugin/webhook/request/admissionreview.go:VerifyAdmissionResponse
and pkg/admission/plugin/webhook/mutating/dispatcher.go:callAttrMutatingHook. A patch on an
operation without object, or one that does not apply, fails the user's request even with
failurePolicy Ignore.
"""

import json
import re
from base64 import b64decode
from binascii import Error as NotBase64
from typing import Any, Final

from genguard.admission.review import V1, Operation, Phase

# A key is stored as "<webhook name>/<key>" and must then be a qualified name.
_ANNOTATION_KEY: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def violations(request: dict[str, Any], answer: dict[str, Any], phase: Phase) -> list[str]:
    """Every way in which an answer breaks the contract; both are whole AdmissionReviews."""
    asked = request["request"]
    response = answer.get("response")
    if not isinstance(response, dict):
        return ["response is missing"]
    broken = []
    if answer.get("apiVersion") != request["apiVersion"]:
        broken.append("apiVersion is not the request's")
    if answer.get("kind") != "AdmissionReview":
        broken.append("kind is not AdmissionReview")
    if response.get("uid") != asked["uid"]:
        broken.append("uid is not the request's")
    if response.get("allowed") is not True:
        broken.append("genguard never denies")
    broken += _patch_violations(asked, response, phase, request["apiVersion"])
    broken += [
        f"audit annotation key {key!r} is not a qualified name"
        for key in response.get("auditAnnotations") or {}
        if not _ANNOTATION_KEY.fullmatch(key)
    ]
    return broken


def _patch_violations(
    asked: dict[str, Any], response: dict[str, Any], phase: Phase, version: str
) -> list[str]:
    patch, patch_type = response.get("patch"), response.get("patchType")
    if patch is None and patch_type is None:
        return []
    broken = []
    if patch is None or patch_type is None:
        broken.append("patch and patchType go together")
    if patch_type != "JSONPatch" and version == V1:
        broken.append("patchType is not JSONPatch")
    if phase is not Phase.MUTATE:
        broken.append(f"a patch in phase {phase}")
    if asked["operation"] in (Operation.DELETE, Operation.CONNECT) or not asked.get("object"):
        broken.append("a patch where there is no object")
    try:
        operations = json.loads(b64decode(patch or "", validate=True))
    except (NotBase64, ValueError):
        return [*broken, "patch is not base64 of JSON"]
    if not isinstance(operations, list):
        broken.append("patch is not a list of operations")
    return broken
