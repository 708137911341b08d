"""`--ops-auth kubernetes` and `token-file` against tokens that a thief or a forger would bring.

The tokens are made with the API server's own signing key, so that each has one fault alone.
"""

import base64
import hmac
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from tests.cases_loader import read_beside
from tests.controlplane.granting import granted
from tests.controlplane.plane import ControlPlane
from webhook.cluster.connection import connected, review_token
from webhook.cluster.rest import Rest
from webhook.server.access import Part, ReviewedTokens, TokenFile, Tokens

_NAMESPACE = "genguard-system"
_ACCOUNTS = f"/api/v1/namespaces/{_NAMESPACE}/serviceaccounts"
Claims = dict[str, Any]
Key = ec.EllipticCurvePrivateKey


RIGHTS = read_beside(__file__, "ops_rights.yaml")


@pytest.fixture(scope="module")
def rights(apiserver: ControlPlane) -> Iterator[None]:
    with granted(apiserver, RIGHTS):
        yield


def issued(apiserver: ControlPlane, name: str, **spec: Any) -> str:
    """A token of an account, as `kubectl create token` gets it."""
    answer = apiserver.client.post(f"{_ACCOUNTS}/{name}/token", {"spec": spec})
    token: str = answer.body["status"]["token"]
    return token


def encoded(value: bytes | Claims) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def claims_of(token: str) -> Claims:
    found: Claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    return found


def signed(claims: Claims, key: Key) -> str:
    text = f"{encoded({'alg': 'ES256', 'typ': 'JWT'})}.{encoded(claims)}"
    pair = decode_dss_signature(key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{text}.{encoded(b''.join(one.to_bytes(32, 'big') for one in pair))}"


def without(claims: Claims, name: str) -> Claims:
    return {key: value for key, value in claims.items() if key != name}


def public(key: Key) -> bytes:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, form)


def signed_with_public_key(claims: Claims, key: Key) -> str:
    text = f"{encoded({'alg': 'HS256', 'typ': 'JWT'})}.{encoded(claims)}"
    return f"{text}.{encoded(hmac.digest(public(key), text.encode(), 'sha256'))}"


def of_another(claims: Claims) -> Claims:
    """The same, of an account that has been deleted and made again."""
    found = json.loads(json.dumps(claims))
    found["kubernetes.io"]["serviceaccount"]["uid"] = "00000000-0000-0000-0000-000000000000"
    return dict(found)


_OTHER_KEY = ec.generate_private_key(ec.SECP256R1())
FORGED: dict[str, Callable[[Claims, Key], str]] = {
    "of another key": lambda claims, _: signed(claims, _OTHER_KEY),
    "not signed": lambda claims, _: f"{encoded({'alg': 'none'})}.{encoded(claims)}.",
    "signed with the public key": signed_with_public_key,
    "with the signature of other claims": lambda claims, key: ".".join(
        (*signed(claims | {"sub": "x"}, key).split(".")[:1], encoded(claims),
         signed(claims | {"sub": "x"}, key).split(".")[2])
    ),
    "expired": lambda claims, key: signed(claims | {"exp": int(time.time()) - 3_600}, key),
    "not valid yet": lambda claims, key: signed(claims | {"nbf": int(time.time()) + 3_600}, key),
    "for another audience": lambda claims, key: signed(claims | {"aud": ["vault"]}, key),
    "of another issuer": lambda claims, key: signed(claims | {"iss": "https://example.org"}, key),
    "of an account that was made again": lambda claims, key: signed(of_another(claims), key),
    "of no account": lambda claims, key: signed(without(claims, "kubernetes.io"), key),
    "of an administrator": lambda claims, key: signed(
        without(claims, "kubernetes.io") | {"sub": "system:admin", "groups": ["system:masters"]},
        key,
    ),
    "cut off": lambda claims, key: signed(claims, key)[:-1],
    "without an end": lambda claims, key: signed(claims, key).rpartition(".")[0],
    "in Kelvin": lambda claims, key: signed(claims, key).replace("k", "\u212a"),
}  # fmt: skip


@pytest.fixture
async def by_cluster(apiserver: ControlPlane, rights: None) -> AsyncIterator[Tokens]:
    async with connected(str(apiserver.kubeconfig)) as api:
        yield ReviewedTokens(partial(review_token, Rest(api)))


@pytest.fixture
def by_file(tmp_path: Path) -> Tokens:
    path = tmp_path / "token"
    path.write_text("a-token-of-the-file-itself")
    path.chmod(0o600)
    return TokenFile(path)


def signing_key(apiserver: ControlPlane) -> Key:
    pem = (apiserver.folder / "service-accounts.key").read_bytes()
    key = serialization.load_pem_private_key(pem, None)
    assert isinstance(key, Key)
    return key


async def status(tokens: Tokens, token: str, part: Part = Part.OBSERVED) -> int | None:
    refusal = await tokens.refuses(token, part)
    return refusal and refusal.status


async def test_our_own_signature_is_as_good_as_the_api_servers(
    apiserver: ControlPlane, by_cluster: Tokens
) -> None:
    token = issued(apiserver, "viewer")
    assert await status(by_cluster, token) is None
    made = signed(claims_of(token) | {"jti": "another"}, signing_key(apiserver))
    assert await status(by_cluster, made) is None


@pytest.mark.parametrize("audience", [[], None])
async def test_a_token_without_an_audience_is_what_it_is_to_the_api_server(
    apiserver: ControlPlane, by_cluster: Tokens, by_file: Tokens, audience: list[str] | None
) -> None:
    """One of its own: tokens of Secrets have none (kubernetes pkg/serviceaccount/jwt.go)."""
    claims = claims_of(issued(apiserver, "viewer"))
    claims = without(claims, "aud") if audience is None else claims | {"aud": audience}
    assert await status(by_cluster, signed(claims, signing_key(apiserver))) is None
    assert await status(by_cluster, signed(claims, _OTHER_KEY)) == 401
    assert await status(by_file, signed(claims, signing_key(apiserver))) == 401


@pytest.mark.parametrize("fault", FORGED)
async def test_a_token_with_one_fault_shows_nothing(
    apiserver: ControlPlane, by_cluster: Tokens, by_file: Tokens, fault: str
) -> None:
    claims = claims_of(issued(apiserver, "viewer"))
    token = FORGED[fault](claims, signing_key(apiserver))
    assert await status(by_cluster, token) == 401
    assert await status(by_file, token) == 401


async def test_a_token_that_the_api_server_issued_for_others_shows_nothing(
    apiserver: ControlPlane, by_cluster: Tokens, by_file: Tokens
) -> None:
    token = issued(apiserver, "viewer", audiences=["vault"])
    assert await status(by_cluster, token) == 401
    assert await status(by_file, token) == 401


async def test_a_token_of_an_account_that_is_gone_shows_nothing(
    apiserver: ControlPlane, by_cluster: Tokens
) -> None:
    token = issued(apiserver, "gone")
    apiserver.client.delete(f"{_ACCOUNTS}/gone")
    assert await status(by_cluster, token) == 401
    apiserver.client.post(_ACCOUNTS, {"metadata": {"name": "gone"}})
    assert await status(by_cluster, token + "=") == 401


@pytest.mark.parametrize(
    "sent",
    ["", "Bearer", "Bearer ", "Token {}", "Bearer{}", "Basic {}", "Basic ====", "Negotiate {}"],
)
async def test_no_other_scheme_carries_a_token(
    apiserver: ControlPlane, by_cluster: Tokens, sent: str
) -> None:
    header = sent.format(issued(apiserver, "viewer"))
    request = make_mocked_request("GET", "/", headers={"Authorization": header})
    refusal = await by_cluster(request, Part.OBSERVED)
    assert refusal is not None
    assert refusal.status == 401
