"""Asks the API server who has a token, and whether that user may use a non-resource URL.

Source: k8s.io/api authentication/v1/types.go:TokenReview, authorization/v1/types.go:
SubjectAccessReview; the ClusterRole system:auth-delegator grants both.
"""

from typing import Any, Final

from webhook.cluster.rest import UNREACHED, RefusedError, Rest
from webhook.telemetry.logs import LOGGER

_TOKENS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


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
            if found.get("authenticated") is not True:
                return "", False
            user = {key: found["user"].get(key) for key in ("uid", "groups", "extra")}
            name = str(found["user"]["username"])
            at = {"path": path, "verb": verb}
            spec = {**user, "user": name, "nonResourceAttributes": at}
            access = await self._ask(_ACCESS, "SubjectAccessReview", spec)
        except (RefusedError, AttributeError, KeyError, *UNREACHED) as error:
            # Not the error's text: an API server may repeat in it what it was sent.
            status = error.status if isinstance(error, RefusedError) else None
            facts = {"reason": type(error).__name__, "status": status}
            LOGGER.warning("token not reviewed", extra={"facts": facts})
            return None
        return name, access.get("allowed") is True

    async def _ask(self, path: str, kind: str, spec: dict[str, Any]) -> Any:
        group = path.removeprefix("/apis/").rpartition("/")[0]
        asked = {"apiVersion": group, "kind": kind, "spec": spec}
        return (await self._rest.call("POST", path, asked))["status"]
