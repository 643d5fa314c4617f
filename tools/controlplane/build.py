"""Builds the real control plane from its published Go modules, into a cache: `make controlplane`.

The Go modules in the folders next to this file require kube-apiserver, kube-controller-manager, kube-scheduler,
kubectl, etcd, kwok, the distribution registry and helm in fixed versions. The binaries are in
`~/.cache/kubewright/controlplane/<hash>/bin` (or in `$XDG_CACHE_HOME`). The hash covers all inputs of the build. The
link `current` next to it points to the latest build. kwok's stages, which define how simulated Pods and nodes behave,
are in `<hash>/stages`. If the build exists already, the script only prints its directory.

With `--conformance`, the script builds the conformance suite of Kubernetes instead: `e2e.test`, `agnhost` and kubectl,
in `conformance-<hash>/bin`. With `--etcd`, it builds the versions of etcd that examples/etcd-operator runs: etcd and
etcdutl, in `etcd-<hash>/bin/<version>`. The link `etcd` points to the latest build of these.

The script prints progress on standard error and the directory of the binaries on standard output, so that
`export KUBEBUILDER_ASSETS=$(python tools/controlplane/build.py)` works. It uses only the standard library.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
KUBERNETES_VERSION = "v1.36.1"
KUBERNETES_COMMIT = "756939600b9a7180fc2df6550a4585b638875e67"
"""The commit of the version's tag. A build from a module does not know it."""
KUBERNETES_RELEASED = "2026-05-12T09:51:33Z"
_VERSION_PACKAGES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


@dataclass(frozen=True)
class Binary:
    name: str
    module: str
    """The folder next to this file whose go.mod requires it."""
    package: str


BINARIES = (
    Binary("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
    Binary("kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
    Binary("kubectl", "kubernetes", "k8s.io/kubernetes/cmd/kubectl"),
    Binary("kube-controller-manager", "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    Binary("kube-scheduler", "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
    Binary("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok"),
    Binary("registry", "registry", "github.com/distribution/distribution/v3/cmd/registry"),
    Binary("helm", "helm", "helm.sh/helm/v4/cmd/helm"),
)

CONFORMANCE = (
    Binary("e2e.test", "conformance", "k8s.io/kubernetes/test/e2e"),
    Binary("agnhost", "conformance", "k8s.io/kubernetes/test/images/agnhost"),
    Binary("kubectl", "conformance", "k8s.io/kubernetes/cmd/kubectl"),
)
"""A name that ends with `.test` is built from the tests of its package."""

ETCD = tuple(
    Binary(f"{version}/{name}", f"etcd-{version.rpartition('.')[0]}", f"go.etcd.io/etcd/{package}/v3")
    for version in ("3.6.16", "3.7.3")
    for name, package in (("etcd", "server"), ("etcdutl", "etcdutl"))
)

STAGES = ("pod/fast", "node/fast", "node/heartbeat-with-lease")
"""Pods and nodes become ready immediately, and nodes stay ready."""


class BuildError(Exception):
    """The control plane cannot be built. The message says why, and what to do."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the real control plane from Go modules into a cache.")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="folder to build into (%(default)s)")
    parser.add_argument("--conformance", action="store_true", help="build the conformance suite instead")
    parser.add_argument("--etcd", action="store_true", help="build the versions of etcd for the example instead")
    arguments = parser.parse_args()
    cache: Path = arguments.cache
    chosen = build_conformance if arguments.conformance else build_etcd if arguments.etcd else build
    try:
        print(chosen(cache) / "bin")
    except BuildError as error:
        say(f"The real control plane was not built: {error}")
        return 1
    return 0


def default_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kubewright" / "controlplane"


def build(cache: Path) -> Path:
    """Return the directory with `bin` and `stages`, and build it if it does not exist."""
    target = cache / fingerprint()
    if not target.is_dir():
        check_go()
        say(f"Building Kubernetes {KUBERNETES_VERSION}, etcd and kwok. The first build takes ten minutes on two cores.")
        build_into(target, BINARIES)
    point_to(target, "current")
    return target


def build_conformance(cache: Path) -> Path:
    """Return the directory with the `bin` of the conformance suite, and build it if it does not exist."""
    target = cache / f"conformance-{fingerprint_of((linker_flags(), CONFORMANCE), CONFORMANCE)}"
    if not target.is_dir():
        check_go()
        say(f"Building the conformance suite of Kubernetes {KUBERNETES_VERSION}. The first build takes some minutes.")
        build_into(target, CONFORMANCE)
    return target


def build_etcd(cache: Path) -> Path:
    """Return the directory with the `bin` of the versions of etcd, and build it if it does not exist."""
    target = cache / f"etcd-{fingerprint_of((linker_flags(), ETCD), ETCD).rpartition('-')[2]}"
    if not target.is_dir():
        check_go()
        say("Building the versions of etcd for examples/etcd-operator. The first build takes some minutes.")
        build_into(target, ETCD)
    point_to(target, "etcd")
    return target


def build_into(target: Path, binaries: Sequence[Binary]) -> None:
    """Build `binaries` into `target`. An interrupted build leaves nothing that looks complete."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".building-", dir=target.parent) as scratch:
        work = Path(scratch) / target.name
        compile_into(work / "bin", binaries)
        if binaries is BINARIES:
            copy_stages(work / "stages")
        if not target.is_dir():  # another process may have built it
            work.rename(target)


def fingerprint() -> str:
    """Return a hash of the modules, the binaries and the platform."""
    return fingerprint_of((linker_flags(), BINARIES, STAGES), BINARIES)


def fingerprint_of(recipe: tuple[object, ...], binaries: Sequence[Binary]) -> str:
    digest = hashlib.sha256(repr((platform.system(), platform.machine(), *recipe)).encode())
    modules = {binary.module for binary in binaries}
    for file in sorted(HERE.glob("*/go.*")):
        if file.parent.name in modules:
            digest.update(file.read_bytes())
    return f"{KUBERNETES_VERSION}-{digest.hexdigest()[:12]}"


def check_go() -> None:
    """Raise BuildError unless an installed Go can build the modules."""
    if shutil.which("go") is None:
        raise BuildError(
            "it needs Go 1.26 or newer; no `go` was found on the PATH. Install Go (https://go.dev/dl), then run this"
            " again. The embedded control plane works without Go: only tests with --kubewright-target=real need the"
            " real one."
        )
    asked = go("env", "GOVERSION", module="kubernetes")
    if asked.returncode != 0:
        raise BuildError(f"the installed Go cannot build it ({asked.stderr.strip()}). Install Go 1.26 or newer.")


def compile_into(directory: Path, binaries: Sequence[Binary]) -> None:
    directory.mkdir(parents=True)
    for number, binary in enumerate(binaries, start=1):
        say(f"  [{number}/{len(binaries)}] {binary.name} ...")
        started = time.monotonic()
        command = ("test", "-c", "-vet=off") if binary.name.endswith(".test") else ("build",)
        (directory / binary.name).parent.mkdir(exist_ok=True)
        flags = ("-trimpath", "-ldflags", linker_flags(), "-o", str(directory / binary.name))
        built = go(*command, *flags, binary.package, module=binary.module)
        if built.returncode != 0:
            raise BuildError(f"`go {command[0]} {binary.package}` failed:\n{built.stderr.strip()}")
        say(f"  [{number}/{len(binaries)}] {binary.name} built in {time.monotonic() - started:.0f} s")


def linker_flags() -> str:
    """Return flags that strip symbols and set the version, which a build from a module lacks."""
    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    facts = {
        "gitVersion": KUBERNETES_VERSION,
        "gitMajor": major,
        "gitMinor": minor,
        "gitCommit": KUBERNETES_COMMIT,
        "gitTreeState": "clean",
        "buildDate": KUBERNETES_RELEASED,
    }
    settings = [f"-X {package}.{name}={value}" for package in _VERSION_PACKAGES for name, value in facts.items()]
    return " ".join(("-s", "-w", *settings))


def copy_stages(directory: Path) -> None:
    module = go("list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok", module="kwok")
    if module.returncode != 0:
        raise BuildError(f"kwok's module cannot be found: {module.stderr.strip()}")
    directory.mkdir()
    for folder in STAGES:
        for file in Path(module.stdout.strip(), "kustomize", "stage", folder).glob("*.yaml"):
            if file.name != "kustomization.yaml":
                shutil.copyfile(file, directory / file.name)


def go(*arguments: str, module: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"CGO_ENABLED": "0", "GOWORK": "off"}
    return subprocess.run(
        ("go", *arguments), cwd=HERE / module, env=environment, capture_output=True, text=True, check=False
    )


def point_to(target: Path, name: str) -> None:
    """Replace a link to the latest build in one step, so that a reader always finds one."""
    link = target.parent / name
    if link.is_symlink() and link.readlink() == Path(target.name):
        return
    fresh = target.parent / f".{name}-{os.getpid()}"
    fresh.symlink_to(target.name)
    fresh.replace(link)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
