"""The folder for KUBEBUILDER_ASSETS: the programs as files that envtest can start."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import sys
from pathlib import Path
from typing import Final

from kubewright.machinery.errors import ConfigError
from kubewright_controlplane.apiserver import catalog

_PROGRAMS: Final = {"kube-apiserver": "kubeapiserver", "etcd": "etcd"}
_OURS: Final = b"kubewright_controlplane.envtest"
_MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


def assets_folder(parent: Path | None = None) -> Path:
    """Return a folder with `kube-apiserver`, `etcd` and, if there is one on the PATH, `kubectl`.

    The folder is in the user's cache, or in `parent/k8s`, named as setup-envtest names it. Its programs use
    this Python. Raises ConfigError if it cannot be written, or has other programs.
    """
    version = str(catalog.version()["gitVersion"]).removeprefix("v")
    folder = parent.absolute() / "k8s" / f"{version}-{_platform()}" if parent else _cache() / f"{version}-{_own_id()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, module in _PROGRAMS.items():
            _write(folder / name, _script(module, folder))
        _link_kubectl(folder / "kubectl")
    except OSError as error:
        raise ConfigError(f"{error.filename}: {error.strerror}; choose another folder with --bin-dir") from error
    return folder


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "kubewright", "envtest")


def _platform() -> str:
    machine = platform.machine().lower()
    return f"{platform.system().lower()}-{_MACHINES.get(machine, machine)}"


def _own_id() -> str:
    """Return an ID of this Python and this installation, so that two of them do not share a folder."""
    return hashlib.sha256(f"{sys.executable}\n{__file__}".encode()).hexdigest()[:8]


def _script(module: str, folder: Path) -> str:
    """Return a script that starts a program. Without bytecode, a start takes twice as long: where Python may not write
    any next to its sources, it is kept in the folder.
    """
    command = shlex.join((sys.executable, "-P", "-m", f"kubewright_controlplane.envtest.{module}"))
    return f"""#!/bin/sh
if [ -n "$PYTHONDONTWRITEBYTECODE" ]; then
    unset PYTHONDONTWRITEBYTECODE
    export PYTHONPYCACHEPREFIX={shlex.quote(str(folder / "bytecode"))}
fi
exec {command} "$@"
"""


def _write(path: Path, content: str) -> None:
    """Replace a file at once: another process may be starting it."""
    found = path.read_bytes() if path.is_file() else b""
    if found == content.encode():
        return
    if found and _OURS not in found:
        raise ConfigError(f"{path} is another program; remove it, or choose another folder with --bin-dir")
    new = path.with_name(f".{path.name}-{os.getpid()}")
    new.write_text(content)
    new.chmod(0o755)
    new.replace(path)


def _link_kubectl(link: Path) -> None:
    found = shutil.which("kubectl")
    if found is None or (link.exists() and not link.is_symlink()):
        return
    new = link.with_name(f".kubectl-{os.getpid()}")
    new.symlink_to(found)
    new.replace(link)
