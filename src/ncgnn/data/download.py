"""Getting the authors' files from the network: https only, whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import ssl
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from ncgnn._io import atomic_write
from ncgnn.errors import DataMismatchError, DataNotFoundError, InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from pathlib import Path

_TIMEOUT_SECONDS = 30.0
_DEADLINE_SECONDS = 6 * 3600.0
_PAUSES_SECONDS = (1.0, 4.0)
_CHUNK_BYTES = 1 << 18
_HEAD_BYTES = 256
_HTML_STARTS = (b"<!doctype html", b"<html")
_LFS_START = b"version https://git-lfs"
_TEMPORARY_CODES = frozenset([408, 425, 429, 500, 502, 503, 504])


@dataclass(frozen=True)
class RemoteFile:
    """A file that the authors publish.

    Attributes:
        url: Where it is; always https.
        name: The name it gets on the disk, and under which the parser finds it.
        sha256: Checksum of its bytes, or None if it is not recorded.
        size: How many bytes it may have at most; a download stops there.
    """

    url: str
    name: str
    sha256: str | None = None
    size: int = 2 << 30

    def __post_init__(self) -> None:
        if not self.name or self.name.startswith(".") or set(self.name) & set("/\\\0"):
            raise InputError(f"the name of a file must be a plain file name; got {self.name!r}.")

    @classmethod
    def of(cls, file: RemoteFile | Mapping[str, Any] | str, base: str = "") -> RemoteFile:
        """A file from its fields, its address, or its name below the address ``base``."""
        if isinstance(file, RemoteFile):
            return file
        if not isinstance(file, str):
            return cls(**file)
        url = file if "://" in file else f"{base}/{quote(file)}"
        return cls(url, unquote(url.rpartition("/")[2]))


# Not pooch: it follows redirections away from https and cannot stop at a size or a deadline.
class _TemporaryError(Exception):
    """The same request may succeed a little later."""


def download(
    remote: RemoteFile,
    folder: Path,
    progress: bool = True,
    *,
    allow_insecure: bool = False,
) -> Path:
    """Download a file into a folder; it appears there complete and checked, or not at all.

    Args:
        remote: The file.
        folder: Where to put it; made if it is missing.
        progress: Show a progress bar on stderr, if that is a terminal.
        allow_insecure: Also accept plain http, for a server on this machine.

    Raises:
        DataNotFoundError: The network or the server did not deliver the file, or not in time.
        DataMismatchError: The file has another SHA-256 than recorded.
        InputError: The address is not https, or the file is larger than ``remote.size``.
    """
    schemes = ("https", "http") if allow_insecure else ("https",)
    _check_scheme(remote.url, schemes)
    opener = urllib.request.build_opener(_Redirects(schemes))
    target = folder / remote.name
    deadline = time.monotonic() + _DEADLINE_SECONDS
    for pause in (*_PAUSES_SECONDS, None):
        try:
            _transfer(opener, remote, target, progress, deadline)
            return target
        except _TemporaryError as error:
            if pause is None:
                raise DataNotFoundError(f"{remote.url} could not be downloaded: {error}") from error
            time.sleep(pause)
    raise AssertionError("the last attempt either returns or raises")


def _check_scheme(url: str, schemes: tuple[str, ...]) -> None:
    if urlsplit(url).scheme not in schemes:
        raise InputError(f"{url} is not an https address; only https is used for downloads")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirections, but never from https to anything else."""

    def __init__(self, schemes: tuple[str, ...]) -> None:
        self._schemes = schemes

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        _check_scheme(newurl, self._schemes)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _transfer(
    opener: urllib.request.OpenerDirector,
    remote: RemoteFile,
    target: Path,
    progress: bool,
    deadline: float,
) -> None:
    # Some hosts refuse the default name of Python's client.
    request = urllib.request.Request(remote.url, headers={"User-Agent": "ncgnn"})  # noqa: S310
    with _network_errors(remote.url), opener.open(request, timeout=_TIMEOUT_SECONDS) as answer:
        length = answer.headers.get("Content-Length", "")
        expected = int(length) if length.isdigit() else None
        if answer.headers.get_content_type() == "text/html":
            raise _not_data(remote.url, "a web page")
        _check_size(expected or 0, remote)
        digest = hashlib.sha256()
        head = b""
        received = 0
        with atomic_write(target) as stream, _bar(remote.name, expected, progress) as advance:
            # Whatever has arrived, so that a trickle of bytes cannot outlast the deadline.
            while chunk := answer.read1(_CHUNK_BYTES):
                if len(head) < _HEAD_BYTES:
                    head += chunk[:_HEAD_BYTES]
                    _check_start(head, remote.url)
                received += len(chunk)
                _check_size(received, remote)
                _check_deadline(deadline, remote.url)
                stream.write(chunk)
                digest.update(chunk)
                advance(len(chunk))
            if not received or (expected is not None and received != expected):
                raise _TemporaryError(f"the answer broke off after {received} bytes")
            _check_digest(digest.hexdigest(), remote)


@contextlib.contextmanager
def _network_errors(url: str) -> Generator[None]:
    """Tell failures that may pass from those that will not."""
    try:
        yield
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in _TEMPORARY_CODES:
            raise _TemporaryError(f"the server answered {error.code}") from error
        raise DataNotFoundError(
            f"{url} could not be downloaded: the server answered {error.code} {error.reason}"
        ) from error
    except urllib.error.URLError as error:
        raise _TemporaryError(str(error.reason)) from error
    except (TimeoutError, ConnectionError, ssl.SSLError, http.client.HTTPException) as error:
        raise _TemporaryError(str(error) or type(error).__name__) from error


def _check_size(size: int, remote: RemoteFile) -> None:
    if size > remote.size:
        raise InputError(
            f"{remote.url} has more than the {remote.size} bytes that {remote.name} may have; it "
            "was changed at its source and is not used"
        )


def _check_deadline(deadline: float, url: str) -> None:
    if time.monotonic() > deadline:
        raise DataNotFoundError(
            f"{url} could not be downloaded within {_DEADLINE_SECONDS:.0f} seconds"
        )


def _check_start(head: bytes, url: str) -> None:
    start = head.lstrip().lower()
    if start.startswith(_HTML_STARTS):
        raise _not_data(url, "a web page")
    if start.startswith(_LFS_START):
        raise _not_data(url, "a pointer to a large file")


def _not_data(url: str, what: str) -> DataNotFoundError:
    return DataNotFoundError(
        f"{url} could not be downloaded: the server sent {what} instead of the data (it may limit "
        "downloads or want a log-in); open the address in a browser"
    )


def _check_digest(found: str, remote: RemoteFile) -> None:
    if remote.sha256 is not None and found != remote.sha256:
        raise DataMismatchError(
            f"{remote.url} has SHA-256 {found}, expected {remote.sha256}; the file was changed at "
            "its source or on the way and is not used"
        )


@contextlib.contextmanager
def _bar(name: str, total: int | None, progress: bool) -> Generator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, console=console, disable=not (progress and console.is_terminal)) as bar:
        task = bar.add_task(name, total=total)
        yield lambda count: bar.advance(task, count)
