"""Compile caches: cold ones are a run's own and without graphs, a warm one is shared."""

import json
import threading
from pathlib import Path

import pytest

from src.sweep import caches
from src.sweep.caches import Cache


class Probe:
    """A probe that leaves what inductor leaves, and counts."""

    def __init__(self, seconds=2.5):
        self.folders = []
        self.seconds = seconds

    def __call__(self, folder):
        self.folders.append(folder)
        for name in (*caches.GRAPH_CACHE_FOLDERS, "precompiled_headers"):
            (folder / name).mkdir(parents=True)
            (folder / name / "file").write_bytes(b"12345")
        return self.seconds


@pytest.fixture
def probe():
    return Probe()


def names(folder):
    return sorted(p.name for p in folder.iterdir())


class TestCold:
    def test_starts_from_the_probed_toolchain_without_a_graph(self, tmp_path, probe):
        """What inductor learnt of the machine is there, what it compiled is not."""
        cache = caches.prepare(tmp_path, "s", "run", shared=None, probe=probe)
        assert cache.folder == tmp_path / "cache" / "sweep=s" / "run"
        assert names(cache.folder) == ["precompiled_headers"]
        assert (cache.temporary, cache.toolchain_s, cache.bytes_before) == (True, 2.5, 5)

    def test_the_toolchain_is_probed_once_a_sweep(self, tmp_path, probe):
        """Every run has the seconds of the one probe, and a folder of its own."""
        first = caches.prepare(tmp_path, "s", "a", shared=None, probe=probe)
        second = caches.prepare(tmp_path, "s", "b", shared=None, probe=probe)
        assert len(probe.folders) == 1
        assert first.folder != second.folder
        assert first.toolchain_s == second.toolchain_s == 2.5

    def test_another_sweep_probes_anew(self, tmp_path, probe):
        """Sweeps share nothing that is cold."""
        caches.prepare(tmp_path, "s", "a", shared=None, probe=probe)
        caches.prepare(tmp_path, "t", "a", shared=None, probe=probe)
        assert [f.parent.name for f in probe.folders] == ["sweep=s", "sweep=t"]

    def test_what_an_earlier_run_of_that_name_left_is_gone(self, tmp_path, probe):
        """A cold cache is cold also when a sweep id is used again."""
        first = caches.prepare(tmp_path, "s", "a", shared=None, probe=probe)
        (first.folder / "fxgraph").mkdir()
        second = caches.prepare(tmp_path, "s", "a", shared=None, probe=probe)
        assert second.folder == first.folder
        assert names(second.folder) == ["precompiled_headers"]

    def test_a_probe_without_an_answer_is_asked_again(self, tmp_path):
        """A run that needs no toolchain does not decide for the next one, which may."""
        silent, speaking = Probe(None), Probe(1.5)
        silent_cache = caches.prepare(tmp_path, "s", "a", shared=None, probe=lambda _folder: None)
        assert silent_cache.toolchain_s is None
        assert caches.prepare(tmp_path, "s", "b", shared=None, probe=speaking).toolchain_s == 1.5
        assert caches.prepare(tmp_path, "s", "c", shared=None, probe=silent).toolchain_s == 1.5
        assert silent.folders == []

    @pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"toolchain_s": null}'])
    def test_a_note_that_was_cut_short_is_written_anew(self, tmp_path, probe, text):
        """A disk that was full, or a parent that was killed, does not end every later run."""
        note = tmp_path / "cache" / "sweep=s" / "toolchain.json"
        note.parent.mkdir(parents=True)
        note.write_text(text)
        assert caches.prepare(tmp_path, "s", "a", shared=None, probe=probe).toolchain_s == 2.5
        assert json.loads(note.read_text()) == {"toolchain_s": 2.5}

    def test_runs_that_start_together_probe_once(self, tmp_path):
        """A second run waits for the first one's probe."""
        inside, go = threading.Event(), threading.Event()
        probe = Probe()

        def slow(folder):
            inside.set()
            go.wait(60)
            return probe(folder)

        made = []

        def prepare(name):
            made.append(caches.prepare(tmp_path, "s", name, shared=None, probe=slow).toolchain_s)

        threads = [threading.Thread(target=prepare, args=(name,)) for name in "ab"]
        threads[0].start()
        assert inside.wait(60)
        threads[1].start()
        go.set()
        for thread in threads:
            thread.join(60)
        assert (made, len(probe.folders)) == ([2.5, 2.5], 1)


class TestWarm:
    def test_is_one_folder_for_all_sweeps(self, tmp_path, probe):
        """Graphs stay, and nothing of it is temporary."""
        first = caches.prepare(tmp_path, "s", "a", shared="warm", probe=probe)
        second = caches.prepare(tmp_path, "t", "b", shared="warm", probe=probe)
        assert first.folder == second.folder == tmp_path / "cache" / "warm"
        assert names(first.folder) == ["aotautograd", "fxgraph", "precompiled_headers"]
        assert not first.temporary
        assert len(probe.folders) == 1
        assert (first.bytes_before, first.toolchain_s, second.toolchain_s) == (15, 2.5, 2.5)


class TestCache:
    def test_environment_points_torch_and_triton_into_it(self, tmp_path):
        """Triton has a cache of its own, which must be as cold."""
        cache = Cache(tmp_path, None, temporary=True, bytes_before=0)
        assert cache.environment() == {
            "TORCHINDUCTOR_CACHE_DIR": str(tmp_path),
            "TRITON_CACHE_DIR": str(tmp_path / "triton"),
        }

    def test_grown_bytes_are_those_the_run_added(self, tmp_path, probe):
        """Not what the toolchain had put there."""
        cache = caches.prepare(tmp_path, "s", "a", shared=None, probe=probe)
        assert cache.grown_bytes() == 0
        (cache.folder / "deep").mkdir()
        (cache.folder / "deep" / "graph").write_bytes(bytes(1000))
        assert cache.grown_bytes() == 1000

    def test_a_cache_that_shrank_has_not_grown(self, tmp_path):
        """Bytes are never negative."""
        assert Cache(tmp_path, None, temporary=True, bytes_before=7).grown_bytes() == 0


class TestFolderBytes:
    def test_counts_files_and_not_what_links_point_to(self, tmp_path):
        """A link to the toolchain's files is not the run's size."""
        outside = tmp_path / "outside"
        outside.write_bytes(bytes(500))
        inside = tmp_path / "inside"
        inside.mkdir()
        (inside / "own").write_bytes(bytes(20))
        (inside / "link").symlink_to(outside)
        assert caches.folder_bytes(inside) == 20

    def test_no_folder_has_no_bytes(self, tmp_path):
        """A cache that was never made is empty."""
        assert caches.folder_bytes(tmp_path / "nowhere") == 0


class TestRemoveSweep:
    @pytest.fixture
    def filled(self, tmp_path, probe):
        caches.prepare(tmp_path, "s", "a", shared=None, probe=probe)
        caches.prepare(tmp_path, "other", "a", shared=None, probe=probe)
        caches.prepare(tmp_path, "s", "a", shared="warm", probe=Probe())
        return tmp_path

    def test_takes_the_sweeps_cold_caches_and_nothing_else(self, filled):
        """Other sweeps and the warm cache stay."""
        caches.remove_sweep(filled, "s", keep_runs=False)
        assert names(filled / "cache") == ["sweep=other", "warm", "warm.json", "warm.lock"]

    def test_keeps_those_of_runs_when_asked(self, filled):
        """The toolchain alone goes."""
        caches.remove_sweep(filled, "s", keep_runs=True)
        assert names(filled / "cache" / "sweep=s") == ["a"]

    @pytest.mark.parametrize("keep", [True, False])
    def test_a_sweep_without_caches_is_no_error(self, tmp_path, keep):
        """There is nothing to remove where nothing was made."""
        caches.remove_sweep(tmp_path, "s", keep_runs=keep)
        assert list(Path(tmp_path).iterdir()) == []
