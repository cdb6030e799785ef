"""Files appear complete or not at all."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading

import pytest

from ncgnn._io import (
    atomic_write,
    is_locked,
    locked,
    make_durable,
    remove_leftovers,
    sha256_of_file,
    take_lock,
    temporary_path,
    write_text,
)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_file_appears_when_the_block_ends(tmp_path):
    target = tmp_path / "result.bin"
    with atomic_write(target) as stream:
        stream.write(b"first ")
        stream.flush()
        assert not target.exists()
        stream.write(b"second")
    assert target.read_bytes() == b"first second"
    assert names(tmp_path) == ["result.bin"]


def test_an_old_file_stays_until_the_new_one_is_complete(tmp_path):
    target = tmp_path / "result.bin"
    target.write_bytes(b"old")
    with atomic_write(target) as stream:
        stream.write(b"new")
        stream.flush()
        assert target.read_bytes() == b"old"
    assert target.read_bytes() == b"new"


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("old", [None, b"old"])
def test_an_error_leaves_everything_as_it_was(tmp_path, error, old):
    target = tmp_path / "result.bin"
    if old is not None:
        target.write_bytes(old)
    before = names(tmp_path)

    def fail():
        with atomic_write(target) as stream:
            stream.write(b"half")
            raise error

    with pytest.raises(error):
        fail()
    assert names(tmp_path) == before
    assert old is None or target.read_bytes() == old


def test_missing_folders_are_made(tmp_path):
    target = tmp_path / "a" / "b" / "result.bin"
    with atomic_write(str(target)) as stream:
        stream.write(b"deep")
    assert target.read_bytes() == b"deep"


def test_a_folder_in_the_way_is_an_error_that_leaves_nothing_behind(tmp_path):
    target = tmp_path / "result"
    target.mkdir()
    with pytest.raises(OSError), atomic_write(target) as stream:  # noqa: PT011
        stream.write(b"never")
    assert names(tmp_path) == ["result"]


def test_the_temporary_file_is_hidden_and_beside_the_target(tmp_path):
    with atomic_write(tmp_path / "result.bin") as stream:
        (temporary,) = names(tmp_path)
        assert temporary.startswith(".")
        assert os.path.samestat(os.fstat(stream.fileno()), (tmp_path / temporary).stat())


def test_the_bytes_are_on_the_disk_before_the_file_has_its_name(tmp_path, monkeypatch):
    target = tmp_path / "result.bin"
    synced = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append((handle, target.exists())))
    with atomic_write(target) as stream:
        stream.write(b"safe")
        handle = stream.fileno()
    assert synced[0] == (handle, False)


def test_a_file_that_need_not_outlast_a_power_cut_does_not_wait_for_the_disk(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    write_text(tmp_path / "result", "whole", durable=False)
    assert (tmp_path / "result").read_text() == "whole"
    assert synced == []


def test_many_files_are_made_durable_at_once(tmp_path, monkeypatch):
    places = [tmp_path / name for name in "abc"]
    for place in places:
        write_text(place, place.name, durable=False)
    synced = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_ino))
    make_durable(places)
    assert sorted(synced) == sorted(place.stat().st_ino for place in places)
    make_durable([])


def test_readers_never_see_half_a_file(tmp_path):
    target = tmp_path / "result.bin"
    contents = {bytes([letter]) * 50_000 for letter in b"abcd"}
    target.write_bytes(next(iter(contents)))
    stop, odd = threading.Event(), []

    def read():
        while not stop.is_set():
            seen = target.read_bytes()
            if seen not in contents:
                odd.append(len(seen))

    def write(content):
        for _ in range(10):
            with atomic_write(target) as stream:
                for start in range(0, len(content), 7000):
                    stream.write(content[start : start + 7000])

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write, args=(content,)) for content in contents]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    reader.join()
    assert not odd
    assert target.read_bytes() in contents
    assert names(tmp_path) == ["result.bin"]


def test_text_is_utf8(tmp_path):
    write_text(tmp_path / "note.txt", "naïve Σ\n")
    assert (tmp_path / "note.txt").read_bytes() == "naïve Σ\n".encode()


def test_checksum(tmp_path):
    content = b"x" * 1_000_003
    (tmp_path / "data").write_bytes(content)
    assert sha256_of_file(tmp_path / "data") == hashlib.sha256(content).hexdigest()
    assert sha256_of_file(str(tmp_path / "data")) == hashlib.sha256(content).hexdigest()


def test_a_lock_keeps_others_out_until_its_process_is_killed(tmp_path):
    path = tmp_path / "a" / ".lock"
    assert not is_locked(path)
    assert not path.exists(), "asking must write nothing"
    program = "import sys; from pathlib import Path; from ncgnn._io import take_lock\n"
    program += "lock = take_lock(Path(sys.argv[1])); print('locked', flush=True); input()"
    holder = subprocess.Popen(
        [sys.executable, "-c", program, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout.readline() == "locked\n"
    assert is_locked(path)
    assert take_lock(path, wait=False) is None
    holder.kill()
    holder.communicate()
    assert not is_locked(path)
    lock = take_lock(path, wait=False)
    assert lock is not None
    assert is_locked(path)
    lock.release()
    assert not is_locked(path)


def test_a_lock_is_waited_for(tmp_path):
    lock, entered = take_lock(tmp_path / ".lock"), threading.Event()

    def enter():
        with locked(tmp_path / ".lock"):
            entered.set()

    thread = threading.Thread(target=enter)
    thread.start()
    assert not entered.wait(0.1)
    lock.release()
    assert entered.wait(10)
    thread.join()


KILLED = """
import os, signal, sys
from pathlib import Path
from ncgnn._io import atomic_write, temporary_path
folder = Path(sys.argv[1])
temporary_path(folder / "built").mkdir()
with atomic_write(folder / "weights.bin") as stream:
    stream.write(b"half")
    stream.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name != "posix", reason="kills a process")
def test_what_a_dead_process_has_left_is_removed_and_nothing_else(tmp_path):
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], timeout=60)
    left = names(tmp_path)
    assert len(left) == 2
    assert all(name.endswith(".part") for name in left)
    mine = temporary_path(tmp_path / "mine")
    mine.write_bytes(b"being made")
    other, earlier = "01234567-12-0123456789ab", "0123456789abcdef" * 2
    young, old = [tmp_path / f".a.{other}.part", tmp_path / f".b.{other}.part"]
    of_others = [tmp_path / name for name in (".movie.mkv.part", ".a.0123.part", "kept.part")]
    for path in (young, old, tmp_path / f".c.{earlier}.part", *of_others):
        path.write_bytes(b"of another machine")
        if path != young:
            os.utime(path, (0, 0))
    folder = tmp_path / ".backup.part"
    folder.mkdir()
    os.utime(folder, (0, 0))
    remove_leftovers(tmp_path, "b")
    assert set(left) < set(names(tmp_path))
    assert not old.exists()
    remove_leftovers(tmp_path)
    kept = [mine, young, folder, *of_others]
    assert names(tmp_path) == sorted(path.name for path in kept)


@pytest.mark.parametrize("name", ["n" * 255, "ü" * 127])
def test_names_as_long_as_the_system_takes(tmp_path, name, monkeypatch):
    write_text(tmp_path / name, "all of it")
    assert (tmp_path / name).read_text() == "all of it"
    left = temporary_path(tmp_path / name)
    left.touch()
    remove_leftovers(tmp_path, name)
    assert left.exists(), "this process lives"
    monkeypatch.setattr("ncgnn._io._is_alive", lambda process: False)
    remove_leftovers(tmp_path, "another")
    assert left.exists()
    remove_leftovers(tmp_path, name)
    assert not left.exists()
