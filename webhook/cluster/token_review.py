"""Asks the API server who has a token, and whether that user may use a non-resource URL.

Source: k8s.io/api authentication/v1/types.go:TokenReview, authorization/v1/types.go:
SubjectAccessReview; the ClusterRole system:auth-delegator grants both.
"""

from typing import Any, Final

import msgspec

from webhook.cluster.rest import UNREACHED, RefusedError, Rest
from webhook.telemetry.logs import LOGGER

_TOKENS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class _Status(msgspec.Struct):
    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)
    allowed: bool = False


class _Answer(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


class TokenReviews:
    """The Reviewer of server.reviewed_tokens."""

    def __init__(self, rest: Rest) -> None:
        """`rest` must have the right to create both reviews."""
        self._rest: Final = rest

    async def review(self, token: str, verb: str, path: str) -> tuple[str, bool] | None:
        """Return the user of a token and whether access is allowed.

        The user is "" for an invalid token. None when the API server cannot be asked.
        """
        try:
            found = await self._ask(_TOKENS, "TokenReview", {"token": token})
            if not found.authenticated:
                return "", False
            user = found.user
            spec = {
                "user": user.username,
                "uid": user.uid,
                "groups": user.groups,
                "extra": user.extra,
                "nonResourceAttributes": {"path": path, "verb": verb},
            }
            access = await self._ask(_ACCESS, "SubjectAccessReview", spec)
        except (RefusedError, msgspec.MsgspecError, *UNREACHED) as error:
            # Not the error's text: an API server may repeat in it what it was sent.
            status = error.status if isinstance(error, RefusedError) else None
            facts = {"reason": type(error).__name__, "status": status}
            LOGGER.warning("token not reviewed", extra={"facts": facts})
            return None
        return user.username, access.allowed

    async def _ask(self, path: str, kind: str, spec: dict[str, Any]) -> _Status:
        group = path.removeprefix("/apis/").rpartition("/")[0]
        asked = {"apiVersion": group, "kind": kind, "spec": spec}
        return msgspec.convert(await self._rest.call("POST", path, asked), _Answer).status
