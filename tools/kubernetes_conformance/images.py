"""The images of the suite that run as processes: agnhost, pause and busybox, from what this machine has.

agnhost is built with the suite. Its image also has common tools: those of busybox, and curl, dig and getent, as this
machine has them.
The shell is bash: the shells of Debian drop variables such as `data-1`, which that of the image busybox keeps.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import yaml

from kubewright_controlplane.apiserver.pki import CertificateAuthority

_REGISTRY: Final = "registry.k8s.io/e2e-test-images"
_FOLDERS: Final = ("bin", "etc", "tmp", "var", "home", "root", "run", "dev", "proc", "sys", "mnt", "usr/bin", "usr/lib")
_PROGRAMS: Final = {
    "bash": "bash",
    "bwrap": "bubblewrap",
    "busybox": "busybox-static",
    "curl": "curl",
    "dig": "bind9-dnsutils",
    "getent": "libc-bin",
}
"""The programs that the machine needs, and their packages in Debian."""
_NAME_FILES: Final = ("/etc/passwd", "/etc/group", "/etc/nsswitch.conf")


class MissingProgramsError(Exception):
    """This machine does not have a program that the images need."""


def check_programs() -> None:
    """Raise MissingProgramsError if this machine lacks a program."""
    for name in _PROGRAMS:
        _program(name)


def write_images(binaries: Path, folder: Path) -> Path:
    """Write the files of the images and an image table to `folder`, and return the table."""
    root = folder / "root"
    for each in _FOLDERS:
        (root / each).mkdir(parents=True, exist_ok=True)
    shutil.copy(binaries / "agnhost", root / "agnhost")
    (root / "agnhost-2").symlink_to("agnhost")
    _copy_busybox(_program("busybox"), root / "bin")
    for name in ("bash", "curl", "dig", "getent"):
        _copy_with_libraries(_program(name), root / "usr" / "bin" / name, root)
    (root / "bin" / "sh").symlink_to("../usr/bin/bash")
    for name in _NAME_FILES:
        shutil.copy(name, root / "etc")
    pair = CertificateAuthority.create().issue_server(["localhost"])
    (root / "localhost.crt").write_bytes(pair.certificate)
    (root / "localhost.key").write_bytes(pair.key)
    table = folder / "images.yaml"
    images = {
        f"{_REGISTRY}/agnhost:*": {"command": ["/agnhost"], "args": ["pause"], "root": str(root)},
        "registry.k8s.io/pause:*": {"command": ["/agnhost", "pause"], "root": str(root)},
        f"{_REGISTRY}/busybox:*": {"command": ["sh"], "root": str(root)},
        f"{_REGISTRY}/glibc-dns-testing:*": {"command": ["sh"], "root": str(root)},
    }
    table.write_text(yaml.safe_dump({"images": images}))
    table.chmod(0o600)
    return table


def _program(name: str) -> Path:
    found = shutil.which(name)
    if found is None:
        raise MissingProgramsError(f"{name} is not installed; install the package {_PROGRAMS[name]}")
    return Path(found)


def _copy_busybox(busybox: Path, folder: Path) -> None:
    copy = folder / "busybox"
    shutil.copy(busybox, copy)
    for applet in _output(copy, "--list").split():
        if applet not in ("busybox", "sh"):
            (folder / applet).symlink_to("busybox")


def _copy_with_libraries(program: Path, copy: Path, root: Path) -> None:
    shutil.copy(program, copy)
    for library in re.findall(r"/\S+", _output(Path("/usr/bin/ldd"), str(program))):
        target = root / library.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, target)


def _output(program: Path, *arguments: str) -> str:
    return subprocess.run((program, *arguments), capture_output=True, text=True, check=True).stdout
