"""The flush: a buffer larger than the cache, all of it touched."""

import pytest
import torch

from src.bench import flush, roofline

CPU = torch.device("cpu")


def buffer_of(made):
    """Return the only tensor that a flush holds."""
    (buffer,) = (value for value in vars(made).values() if isinstance(value, torch.Tensor))
    return buffer


class TestFlush:
    @pytest.mark.parametrize(("cache", "expected"), [(2**20, 2**22), (None, 2**28)])
    def test_its_buffer_is_four_times_the_cache(self, monkeypatch, cache, expected):
        """Of 64 MiB where the size of the cache is not known."""
        monkeypatch.setattr(roofline, "last_level_cache_bytes", lambda _device: cache)
        buffer = buffer_of(flush.Flush(CPU))
        assert buffer.nbytes == expected
        assert buffer.device == CPU

    def test_each_call_reads_and_writes_all_of_it(self, monkeypatch):
        """Every number has been counted up as often as it was called: none was left where it was."""
        monkeypatch.setattr(roofline, "last_level_cache_bytes", lambda _device: 2**16)
        made = flush.Flush(CPU)
        place = buffer_of(made).data_ptr()
        for _ in range(3):
            made()
        assert torch.equal(buffer_of(made), torch.full((2**16,), 3.0))
        assert buffer_of(made).data_ptr() == place

    def test_it_asks_about_the_device_that_it_is_for(self, monkeypatch):
        """A GPU's cache is another one than its host's."""
        asked = []
        monkeypatch.setattr(roofline, "last_level_cache_bytes", lambda device: asked.append(device) or 2**16)
        flush.Flush(CPU)
        assert asked == [CPU]
