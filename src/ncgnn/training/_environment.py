"""What a result depends on beside its configuration."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, cast

PACKAGES = ("ncgnn", "torch", "torch_geometric", "numpy", "scipy", "numba")


def environment() -> dict[str, Any]:
    """Versions, machine and threads."""
    import torch

    from ncgnn._compile import thread_count

    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "packages": {name: _version(name) for name in PACKAGES},
        "code_sha256": _CODE_SHA256,
        "torch_threads": torch.get_num_threads(),
        "kernel_threads": thread_count(),
        "cuda": torch.version.cuda,
    }


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What has changed between two environments, in words."""
    changed = [
        f"{key}: {before.get(key)} then, {now.get(key)} now"
        for key in now
        if key != "packages" and before.get(key) != now.get(key)
    ]
    packages, stored = now["packages"], before.get("packages")
    then: dict[str, Any] = stored if isinstance(stored, dict) else {}
    changed += [
        f"{name}: {then.get(name)} then, {packages[name]} now"
        for name in packages
        if then.get(name) != packages[name]
    ]
    return changed


def continued_in(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """The environment in which a run began, with those in which it was continued."""
    known = _continuations(before)
    if now in known or not differences(before, now):
        return before
    return before | {"continued_in": [*known, now]}


def code_versions(environment: dict[str, Any]) -> list[str]:
    """Hashes of all source of this package that a run was trained by, the first one first."""
    parts = [environment, *_continuations(environment)]
    return list(dict.fromkeys(str(part["code_sha256"]) for part in parts if "code_sha256" in part))


def _continuations(environment: dict[str, Any]) -> list[dict[str, Any]]:
    stored = environment.get("continued_in")
    parts = cast("list[Any]", stored) if isinstance(stored, list) else []
    return [part for part in parts if isinstance(part, dict)]


def _code_sha256() -> str:
    """A hash of this package's source."""
    root = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root).as_posix()} ".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


#: Of the source as it was imported: workers are forked from a process that has done so, and the
#: files may have changed when they begin.
_CODE_SHA256 = _code_sha256()


@cache
def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
