"""Findings in a block: what is packed comes out again, and what is not genguard's is refused."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from zstandard import ZstdCompressor

from webhook.cluster import saved_findings as module
from webhook.cluster.saved_findings import MOST_BYTES_OF_BLOCK, pack, unpack
from webhook.store.persister import CorruptStoreError

rows = st.lists(st.tuples(st.text(max_size=30), st.binary(max_size=200)), max_size=30)


@given(st.binary(max_size=300))
def test_any_compressed_bytes_are_rows_or_refused(data):
    try:
        unpack(ZstdCompressor().compress(data))
    except CorruptStoreError:
        return


@pytest.mark.slow
@pytest.mark.parametrize("most", [100, 1_000, 3_000])
@given(rows)
def test_what_has_no_room_is_left_out_from_the_end(most, several):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST_BYTES_OF_BLOCK", most)
        data, left_out = pack(several, several)
    assert len(data) <= most
    kept = unpack(data)
    assert kept == tuple(several[: len(kept)])
    assert left_out == len(several) - len(kept)


def test_ten_thousand_findings_fit_a_configmap_and_can_be_read_again():
    several = [(f"detector\0apps\0deployments\0{n}\0status", bytes(2_000)) for n in range(10_000)]
    data, left_out = pack(several, several)
    assert len(data) <= MOST_BYTES_OF_BLOCK
    assert 0 < len(unpack(data)) == len(several) - left_out


def test_a_block_of_another_version_is_refused():
    other = ZstdCompressor().compress(msgspec.msgpack.encode(["findings2", []]))
    with pytest.raises(CorruptStoreError, match="damaged, or of another version"):
        unpack(other)


@pytest.mark.parametrize("tells", [True, False], ids=["with its size", "without"])
def test_a_block_that_would_fill_the_memory_is_refused(tells):
    bomb = ZstdCompressor(write_content_size=tells).compress(bytes(64 * 1024 * 1024))
    assert len(bomb) < MOST_BYTES_OF_BLOCK
    with pytest.raises(CorruptStoreError):
        unpack(bomb)
