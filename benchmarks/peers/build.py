"""Builds the programs of all toolkits into a cache: `~/.cache/kubewright/benchmarks`, or in `$XDG_CACHE_HOME`.

The folder of a build is named after the hash of its sources. A build is done once, and each checkout finds its own. An
interrupted build leaves nothing that looks complete.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Final

from benchmarks.interpreters import Interpreter, interpreter
from benchmarks.peers import (
    CONTROLLER_RUNTIME,
    CONTROLLER_RUNTIME_16,
    KOPF,
    KUBE_RS,
    KUBEWRIGHT,
    KUBEWRIGHT_ONE_PASS,
    Command,
    Peer,
)
from benchmarks.process import compiled_into
from benchmarks.report import say

HERE: Final = Path(__file__).resolve().parent
PROGRAMS: Final = ("widgets", "pods")
SOURCES: Final = (HERE.parents[1], HERE.parents[1] / "packages" / "kubewright" / "src")
"""What the programs of Kubewright import, in an interpreter that has its dependencies."""
_REVIEWS: Final = "reviews"
_OPERATORS: Final = {"widgets": "widgets", "sites": "sites"}
_ONE_PASS: Final = {"widgets": "onepass", "sites": "sites_onepass"}
_REQUIREMENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

_PINS: Final = {
    CONTROLLER_RUNTIME: ("go.mod", r"sigs\.k8s\.io/controller-runtime v(\S+)"),
    KUBE_RS: ("Cargo.toml", r'(?m)^kube = \{ version = "=([^"]+)"'),
    KOPF: ("requirements.txt", r"(?m)^kopf==(\S+)"),
}


class PeerMissing(Exception):
    """A peer cannot be built here. The message says what it needs."""


def build(names: Collection[str]) -> list[Peer]:
    """Build the toolkits of these names if necessary. Prints and omits those that cannot be built."""
    found: list[Peer] = []
    for name, builder in _BUILDERS.items():
        if name in names:
            try:
                found.append(builder())
            except PeerMissing as missing:
                say(f"{name} omitted: {missing}")
    return found


def pinned(name: str) -> str:
    """Return the version of a peer, from the file that its own tools read."""
    file, pattern = _PINS[name]
    match = re.search(pattern, (HERE / name / file).read_text())
    if match is None:
        raise ValueError(f"benchmarks/peers/{name}/{file} pins no version of {name}")
    return match[1]


def _kubewright(name: str, operators: Mapping[str, str], python: str = sys.executable) -> Peer:
    """Return Kubewright with an interpreter that has its dependencies. `operators` are modules, by workload."""
    environment = _as_installed() | {"PYTHONPATH": os.pathsep.join(map(str, SOURCES))}
    commands = {
        program: (python, "-m", f"{__package__}.{KUBEWRIGHT}.{program}")
        for program in ("pods", _REVIEWS, *operators.values())
    }
    for command in commands.values():
        subprocess.run((*command, "--help"), env=environment, stdout=subprocess.DEVNULL, check=True)  # compiles it
    free = ("--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0")
    return Peer(
        name,
        version(KUBEWRIGHT),
        operators={workload: (*commands[program], *free) for workload, program in operators.items()},
        pods=(*commands["pods"], *free),
        environment=environment,
        reviews=(*commands[_REVIEWS], *free),
        python=python,
    )


def build_for(python: str) -> Peer | None:
    """Build Kubewright for another interpreter, in an environment with its dependencies. Prints why it cannot."""
    try:
        other = interpreter(python)
        name = f"{KUBEWRIGHT}-{other.name.partition(' ')[2]}"
        say(f"{name}: {other}, {other.path}")
        return _kubewright(name, _OPERATORS, str(_environment(other) / "bin" / "python"))
    except (OSError, subprocess.CalledProcessError) as error:
        say(f"{python} omitted: it does not run Kubewright: {error}")
    except PeerMissing as missing:
        say(f"{python} omitted: {missing}")
    return None


def _environment(other: Interpreter) -> Path:
    """Return an environment of an interpreter with Kubewright's dependencies, in the versions of this environment."""
    pins = sorted(f"{name}=={version(name)}" for name in _dependencies(KUBEWRIGHT))

    def install_into(folder: Path) -> None:
        _run((other.path, "-m", "venv", str(folder)), HERE)
        _run((str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *pins), HERE)

    key = hashlib.sha256(repr((other, pins)).encode()).hexdigest()[:12]
    return _kept(cache() / f"python-{key}", install_into, f"Installing Kubewright's dependencies for {other} ...")


def _dependencies(name: str) -> set[str]:
    """Return the installed dependencies of a distribution, and theirs, without extras."""
    found: set[str] = set()
    for each in requires(name) or ():
        match = _REQUIREMENT.match(each)
        if match and "extra ==" not in each and match[0] not in found and _is_installed(match[0]):
            found |= {match[0]} | _dependencies(match[0])
    return found


def _is_installed(name: str) -> bool:
    """Return whether a distribution is installed: others are for other platforms."""
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


def _controller_runtime(name: str, workers: int) -> Peer:
    def compile_into(folder: Path) -> None:
        _need("go", "Go 1.26 or newer")
        packages = tuple(f"./{program}" for program in (*_OPERATORS, "pods", _REVIEWS))
        _run(("go", "build", "-trimpath", "-ldflags=-s -w", "-o", f"{folder}/", *packages), HERE / CONTROLLER_RUNTIME)

    folder = _built(CONTROLLER_RUNTIME, HERE / CONTROLLER_RUNTIME, compile_into)
    free = ("--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0")
    return Peer(
        name,
        pinned(CONTROLLER_RUNTIME),
        operators={
            workload: (str(folder / workload), *free, f"--max-concurrent-reconciles={workers}")
            for workload in _OPERATORS
        },
        pods=(str(folder / "pods"),),
        environment=dict(os.environ),
        reviews=(str(folder / _REVIEWS),),
    )


def _kube_rs() -> Peer:
    def compile_into(folder: Path) -> None:
        _need("cargo", "Rust 1.88 or newer with cargo")
        target = cache() / "cargo"
        _run(("cargo", "build", "--release", "--locked", "--target-dir", str(target)), HERE / KUBE_RS)
        for program in PROGRAMS:
            shutil.copy2(target / "release" / program, folder)

    folder = _built(KUBE_RS, HERE / KUBE_RS, compile_into)
    return Peer(
        KUBE_RS,
        pinned(KUBE_RS),
        operators={"widgets": (str(folder / "widgets"),)},
        pods=(str(folder / "pods"),),
        environment=dict(os.environ),
    )


def _kopf() -> Peer:
    environment = _as_installed()

    requirements = HERE / KOPF / "requirements.txt"

    def install_into(folder: Path) -> None:
        _run((sys.executable, "-m", "venv", str(folder)), HERE)
        _run(
            (str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--requirement", str(requirements)),
            HERE,
        )

    python = str(_built(KOPF, requirements, install_into) / "bin" / "python")
    subprocess.run((python, "-c", "import kopf.cli, kubernetes"), env=environment, check=True)  # compiles them

    def command(program: str) -> Command:
        return (python, "-m", "kopf", "run", "--all-namespaces", str(HERE / KOPF / f"{program}.py"))

    return Peer(
        KOPF,
        pinned(KOPF),
        operators={"widgets": command("widgets")},
        pods=command("pods"),
        environment=environment,
    )


_BUILDERS: Final[dict[str, Callable[[], Peer]]] = {
    KUBEWRIGHT: partial(_kubewright, KUBEWRIGHT, _OPERATORS),
    KUBEWRIGHT_ONE_PASS: partial(_kubewright, KUBEWRIGHT_ONE_PASS, _ONE_PASS),
    CONTROLLER_RUNTIME: partial(_controller_runtime, CONTROLLER_RUNTIME, 1),
    CONTROLLER_RUNTIME_16: partial(_controller_runtime, CONTROLLER_RUNTIME_16, 16),
    KUBE_RS: _kube_rs,
    KOPF: _kopf,
}
NAMES: Final = tuple(_BUILDERS)
BY_DEFAULT: Final = (KUBEWRIGHT, KUBEWRIGHT_ONE_PASS, CONTROLLER_RUNTIME, KUBE_RS, KOPF)


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "kubewright", "benchmarks")


def _as_installed() -> dict[str, str]:
    return compiled_into(cache() / "bytecode")


def _built(name: str, sources: Path, build_into: Callable[[Path], None]) -> Path:
    """Return the folder with what `build_into` makes of `sources`, a file or a folder. One process at a time builds."""
    target = cache() / f"{name}-{fingerprint(sources)}"
    return _kept(target, build_into, f"Building the programs of {name} {pinned(name)} ...")


def _kept(target: Path, build_into: Callable[[Path], None], progress: str) -> Path:
    """Return a folder in the cache, which is built if it does not exist."""
    if target.is_dir():
        return target
    cache().mkdir(parents=True, exist_ok=True)
    with _locked(cache()):
        if not target.is_dir():  # another process may have built it
            say(progress)
            with tempfile.TemporaryDirectory(prefix=".building-", dir=cache()) as scratch:
                work = Path(scratch) / target.name
                work.mkdir()
                build_into(work)
                work.rename(target)
    return target


@contextmanager
def _locked(folder: Path) -> Generator[None]:
    """Exclude other processes from the block."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def fingerprint(sources: Path) -> str:
    """Return a hash of a file, or of all files in a folder, and of the platform."""
    digest = hashlib.sha256(repr((platform.system(), platform.machine(), platform.python_version())).encode())
    for file in sorted(sources.rglob("*")) if sources.is_dir() else (sources,):
        if file.is_file() and "__pycache__" not in file.parts:
            digest.update(str(file.relative_to(sources)).encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def _need(program: str, what: str) -> None:
    if shutil.which(program) is None:
        raise PeerMissing(f"it needs {what}; no `{program}` was found on the PATH")


def _run(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PeerMissing(f"`{' '.join(command)}` failed:\n{done.stderr.strip()}")
