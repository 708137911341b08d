"""A command that becomes `genguard` of the version before: it shares facts in an earlier form.

    python tests/store/earlier_format.py python -m webhook serve ...

Facts begin with the number of their form. Here it is one less, so that neither of the two versions
can read what the other one writes, as after a release that changes the form.
"""

import runpy
import sys
from typing import Any

import msgspec

from genguard.detection import fact, life_fact
from webhook.server import detecting
from webhook.store import stream

EARLIER = fact.VERSION - 1


def encode(found: msgspec.Struct) -> bytes:
    """A fact of an update in the earlier form; of the other sort as it is."""
    fields: list[Any] = msgspec.msgpack.decode(fact.encode_fact(found))
    if fields[0] == fact.VERSION:
        fields[0] = EARLIER
    return msgspec.msgpack.encode(fields)


def decode(raw: bytes, real: Any = life_fact.decode_any) -> Any:
    """A fact in the earlier form alone."""
    fields = msgspec.msgpack.decode(raw)
    if not isinstance(fields, list) or fields[0] != EARLIER:
        raise fact.UnreadableFactError(f"not a fact of version {EARLIER}")
    fields[0] = fact.VERSION
    return real(msgspec.msgpack.encode(fields))


if __name__ == "__main__":
    detecting.encode_fact = encode  # type: ignore[attr-defined]
    stream.decode_any = decode  # type: ignore[attr-defined]
    sys.argv = sys.argv[3:]
    runpy.run_module("webhook", run_name="__main__", alter_sys=True)
