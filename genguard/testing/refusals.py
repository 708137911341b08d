"""Answers of the API server that refuse a request: status, reason and message."""

from collections.abc import Sequence
from typing import Any


class RequestRefusedError(Exception):
    """A request that the fake API server refuses.

    status    the HTTP status
    reason    as in `reason` of a Status: `Conflict`, `NotFound`, `Invalid`
    details   `details` of the Status
    """

    def __init__(
        self, status: int, reason: str, message: str, details: dict[str, Any] | None = None
    ) -> None:
        """Keep what the answer says."""
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.details = details

    @property
    def body(self) -> dict[str, Any]:
        """The Status object of the answer."""
        found: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.status,
        }
        return found if self.details is None else {**found, "details": self.details}


def about(resource: str, name: str) -> dict[str, Any]:
    """Return the details of a Status: which object it speaks of."""
    plural, _, group = resource.partition(".")
    return {"name": name, **({"group": group} if group else {}), "kind": plural}


def bad_request(message: str) -> RequestRefusedError:
    """Return 400: the request has a form that the API does not know."""
    return RequestRefusedError(400, "BadRequest", message)


def denied(message: str) -> RequestRefusedError:
    """Return 403: admission refuses the write."""
    return RequestRefusedError(403, "Forbidden", message)


def not_found(resource: str, name: str) -> RequestRefusedError:
    """Return 404 for an object."""
    return RequestRefusedError(
        404, "NotFound", f'{resource} "{name}" not found', about(resource, name)
    )


def no_such_path() -> RequestRefusedError:
    """Return 404 for a path or a resource that is not served."""
    message = "the server could not find the requested resource"
    return RequestRefusedError(404, "NotFound", message, {})


def not_allowed(why: str) -> RequestRefusedError:
    """Return 405 for a method that a path does not take."""
    return RequestRefusedError(405, "MethodNotAllowed", why)


def exists(resource: str, name: str) -> RequestRefusedError:
    """Return 409 for a name that is taken."""
    message = f'{resource} "{name}" already exists'
    return RequestRefusedError(409, "AlreadyExists", message, about(resource, name))


def conflict(resource: str, name: str, why: str) -> RequestRefusedError:
    """Return 409 for a write of an object that is no longer what the client has read."""
    message = f'Operation cannot be fulfilled on {resource} "{name}": {why}'
    return RequestRefusedError(409, "Conflict", message, about(resource, name))


def wrong_uid(resource: str, name: str, asked: str, stored: str = "") -> RequestRefusedError:
    """Return 409 for a write of an object that was deleted, or made again under its name."""
    why = (
        "StorageError: invalid object, Code: 4, AdditionalErrorMsg: Precondition failed: "
        f"UID in precondition: {asked}, UID in object meta: {stored}"
    )
    return conflict(resource, name, why)


MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def invalid(message: str, causes: Sequence[tuple[str, str]] = ()) -> RequestRefusedError:
    """Return 422; `causes` are fields, each with what is wrong."""
    found = [
        {"reason": "FieldValueInvalid", "message": text, "field": field} for field, text in causes
    ]
    return RequestRefusedError(422, "Invalid", message, {"causes": found} if found else None)


def invalid_object(
    kind: str, name: str, causes: Sequence[tuple[str, str]], group: str = ""
) -> RequestRefusedError:
    """Return 422 for an object, with the fields that are wrong."""
    listed = ", ".join(f"{field}: {text}" for field, text in causes)
    listed = f"[{listed}]" if len(causes) > 1 else listed
    full = f"{kind}.{group}" if group else kind
    return invalid(f'{full} "{name}" is invalid: {listed}', causes)


def unsupported_media(known: Sequence[str]) -> RequestRefusedError:
    """Return 415: a patch of a type that the resource does not take."""
    message = (
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(known)
    )
    return RequestRefusedError(415, "UnsupportedMediaType", message)


def not_implemented(what: str) -> RequestRefusedError:
    """Return 501: the fake does not do this, and says so instead of guessing."""
    message = f"the fake API server of genguard does not do this: {what}"
    return RequestRefusedError(501, "NotImplemented", message)


def expired() -> RequestRefusedError:
    """Return 410: a watch from a resourceVersion that is no longer remembered."""
    return RequestRefusedError(
        410, "Expired", "The resourceVersion for the provided watch is too old."
    )
