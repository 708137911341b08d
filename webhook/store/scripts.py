"""What is done in the store in one step: three scripts on the hash of one write.

    i  what the requester asked for (written.py); empty: two that differ have cancelled each other
    a  1 once it was asked for at /mutate: the next intent is another write's
    t  what the write was told in its audit annotations

The rules are those of MemoryIntents. Whoever changes what other replicas may hold a copy of says
so on a channel, and they forget theirs: a copy is good until it is called back. A message is the
replica that need not forget, and the write's digest.

EVAL and not EVALSHA: they are short, the server caches them by itself, and none has to be loaded
again after a restart.
"""

from typing import Final

KEPT_MILLISECONDS: Final = 30_000
"""As webhook/store/memory.py: the longest that a write can be between its phases."""
LARGEST_VALUE: Final = 1024 * 1024
"""Bytes of what was asked or told; no replica writes nearly as many."""
REPLICA_BYTES: Final = 8

_NOBODY: Final = bytes(REPLICA_BYTES)

Command = tuple[str | bytes | int, ...]

_PUT: Final = """\
local before = redis.call('HMGET', KEYS[1], 'i', 'a', 't')
local intent = ARGV[1]
if before[1] and before[2] == '0' and before[1] ~= intent then intent = '' end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'i', intent, 'a', '0')
redis.call('PEXPIRE', KEYS[1], ARGV[2])
local replaced = before[1] and (before[1] ~= intent or before[2] ~= '0')
if intent == '' or replaced or before[3] then
  -- The copy of an intent that is cancelled is wrong at the sender too.
  redis.call('PUBLISH', ARGV[3], (intent == '' and ARGV[5] or ARGV[4]) .. ARGV[6])
end
"""

_ASK: Final = """\
local known = redis.call('HMGET', KEYS[1], 'i', 'a', 't')
if known[2] == '0' then
  redis.call('HSET', KEYS[1], 'a', '1')
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
local most = tonumber(ARGV[2])
if #(known[1] or '') > most or #(known[3] or '') > most then return {} end
return {known[1], known[3]}
"""

_TELL: Final = """\
redis.call('HSET', KEYS[1], 't', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('PUBLISH', ARGV[3], ARGV[4])
"""

_PROBE: Final = (
    _TELL
    + """\
redis.call('XADD', KEYS[2], 'MAXLEN', '~', 1, '*', 'm', '')
redis.call('PEXPIRE', KEYS[2], ARGV[2])
redis.call('XREAD', 'COUNT', 1, 'STREAMS', KEYS[2], '0')
redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)
redis.call('SET', KEYS[3], '', 'PX', ARGV[2])
redis.call('GET', KEYS[3])
"""
)


class Scripts:
    """The commands of one replica, under one prefix."""

    def __init__(self, prefix: str, replica: bytes) -> None:
        """`replica`: REPLICA_BYTES that no other replica has."""
        self._writes: Final = f"{prefix}w1:".encode()  # 1: the form of what is kept
        self._replica: Final = replica
        self.channel: Final = f"{prefix}forget1".encode()
        own = f"{prefix}probe:{replica.hex()}"
        self.probe_keys: Final = (own, f"{prefix}probe:stream", f"{prefix}probe:value")

    def put(self, digest: bytes, intent: bytes) -> Command:
        """Remember an intent; two that differ and are both on their way cancel each other."""
        command = (*self._eval(_PUT, digest), intent, KEPT_MILLISECONDS, self.channel)
        return (*command, self._replica, _NOBODY, digest)

    def ask(self, digest: bytes) -> Command:
        """What is known of a write: [intent, told]; from now on it was asked for."""
        return (*self._eval(_ASK, digest), KEPT_MILLISECONDS, LARGEST_VALUE)

    def tell(self, digest: bytes, told: bytes) -> Command:
        """Remember what a write was told."""
        to = self._replica + digest
        return (*self._eval(_TELL, digest), told, KEPT_MILLISECONDS, self.channel, to)

    def called_back(self, message: bytes) -> bytes | None:
        """The digest of the write to forget; None where this replica need not."""
        replica, digest = message[:REPLICA_BYTES], message[REPLICA_BYTES:]
        return None if replica == self._replica else digest

    def probe(self) -> Command:
        """Succeed only where all that is ever done with the store can be done."""
        return ("EVAL", _PROBE, 3, *self.probe_keys, b"", 1_000, self.channel, self._replica)

    def _eval(self, script: str, digest: bytes) -> Command:
        return ("EVAL", script, 1, self._writes + digest)
