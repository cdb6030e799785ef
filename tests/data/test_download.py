from __future__ import annotations

import hashlib
import socket
from functools import partial

import pytest
from loopback_server import Answer, running_server

from ncgnn.data import download as _download
from ncgnn.data.download import RemoteFile
from ncgnn.errors import DataMismatchError, DataNotFoundError, InputError

DATA = bytes(range(256)) * 3000
download = partial(_download.download, allow_insecure=True)


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(_download, "_PAUSES_SECONDS", (0.0, 0.0))
    with running_server() as running:
        yield running


def test_a_file_arrives_whole(server, tmp_path):
    url = server.serve("/data.npz", DATA)
    remote = RemoteFile(url, "mine.npz", hashlib.sha256(DATA).hexdigest())
    path = download(remote, tmp_path / "new" / "folder")
    assert path == tmp_path / "new" / "folder" / "mine.npz"
    assert path.read_bytes() == DATA
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    "first",
    [
        Answer(b"busy", 503),
        Answer(b"slow down", 429),
        Answer(DATA[:1000], broken=True),
        Answer(b""),
    ],
)
def test_a_passing_failure_is_tried_again(server, tmp_path, first):
    url = server.serve("/data.npz", first, first, DATA)
    assert download(RemoteFile(url, "data.npz"), tmp_path).read_bytes() == DATA
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(b"busy", 503), "the server answered 503"),
        (Answer(DATA, broken=True), "broke off"),
        (Answer(b""), "broke off after 0 bytes"),
    ],
)
def test_a_lasting_failure_ends_after_three_attempts(server, tmp_path, answer, words):
    url = server.serve("/data.npz", answer)
    with pytest.raises(DataNotFoundError, match=words) as caught:
        download(RemoteFile(url, "data.npz"), tmp_path)
    assert url in str(caught.value)
    assert len(server.requests) == 3
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(b"gone", 404), "404"),
        (Answer(b"no", 403), "403"),
        (Answer(b"hello", content_type="text/html; charset=utf-8"), "a web page"),
        (Answer(b"\n <!DOCTYPE html><p>too many downloads"), "a web page"),
        (Answer(b"<HTML>"), "a web page"),
        (Answer(b"version https://git-lfs.github.com/spec/v1\n"), "a pointer to a large file"),
    ],
)
def test_a_wrong_answer_is_not_tried_again(server, tmp_path, answer, words):
    url = server.serve("/data.npz", answer)
    with pytest.raises(DataNotFoundError, match=words):
        download(RemoteFile(url, "data.npz"), tmp_path)
    assert len(server.requests) == 1
    assert list(tmp_path.iterdir()) == []


def test_another_checksum_is_refused(server, tmp_path):
    url = server.serve("/data.npz", DATA)
    (tmp_path / "data.npz").write_bytes(b"what was there")
    with pytest.raises(DataMismatchError, match="expected 0000") as caught:
        download(RemoteFile(url, "data.npz", "0" * 64), tmp_path)
    assert hashlib.sha256(DATA).hexdigest() in str(caught.value)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"what was there"]


@pytest.mark.parametrize("chunked", [False, True])
def test_a_download_stops_at_the_size_that_the_file_may_have(server, tmp_path, chunked):
    url = server.serve("/data.npz", Answer(DATA, chunked=chunked))
    whole = RemoteFile(url, "data.npz", size=len(DATA))
    assert download(whole, tmp_path / "whole").read_bytes() == DATA
    with pytest.raises(InputError, match=f"more than the {len(DATA) - 1} bytes that data.npz may"):
        download(RemoteFile(url, "data.npz", size=len(DATA) - 1), tmp_path / "part")
    assert list((tmp_path / "part").glob("*")) == []
    assert len(server.requests) == 2


def test_a_download_ends_at_the_deadline(server, tmp_path, monkeypatch):
    monkeypatch.setattr(_download, "_DEADLINE_SECONDS", -1.0)
    url = server.serve("/data.npz", DATA)
    with pytest.raises(DataNotFoundError, match="could not be downloaded within"):
        download(RemoteFile(url, "data.npz"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_redirections_are_followed(server, tmp_path):
    target = server.serve("/target", DATA)
    url = server.serve("/data.npz", Answer(code=302, location=target))
    assert download(RemoteFile(url, "data.npz"), tmp_path).read_bytes() == DATA


@pytest.mark.parametrize("location", ["ftp://127.0.0.1/x", "file:///etc/hostname"])
def test_redirections_to_other_schemes_are_refused(server, tmp_path, location):
    url = server.serve("/data.npz", Answer(code=302, location=location))
    with pytest.raises((InputError, DataNotFoundError), match=r"only https|not allowed"):
        download(RemoteFile(url, "data.npz"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_only_https_is_used(server, tmp_path):
    url = server.serve("/data.npz", DATA)
    for address in (url, "file:///etc/hostname", "ftp://example.org/x", "data:,x"):
        with pytest.raises(InputError, match="only https"):
            _download.download(RemoteFile(address, "data.npz"), tmp_path)
    assert server.requests == []


def test_redirections_from_https_to_http_are_refused():
    handler = _download._Redirects(("https",))
    with pytest.raises(InputError, match="only https"):
        handler.redirect_request(None, None, 302, "", {}, "http://example.org/x")


def test_nobody_listens(server, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(DataNotFoundError, match="could not be downloaded"):
        download(RemoteFile(f"http://127.0.0.1:{port}/x", "data.npz"), tmp_path)


def test_a_silent_server_is_given_up(monkeypatch, server, tmp_path):
    monkeypatch.setattr(_download, "_TIMEOUT_SECONDS", 0.05)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/x"
        with pytest.raises(DataNotFoundError, match="timed out"):
            download(RemoteFile(url, "data.npz"), tmp_path)


@pytest.mark.parametrize("progress", [True, False])
def test_nothing_is_printed_where_there_is_no_terminal(server, tmp_path, capsys, progress):
    url = server.serve("/data.npz", DATA)
    download(RemoteFile(url, "data.npz"), tmp_path, progress)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_a_progress_bar_on_stderr(server, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    url = server.serve("/data.npz", DATA)
    download(RemoteFile(url, "data.npz"), tmp_path)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "data.npz" in shown.err
