"""etcd and this operator as programs on this machine, for an embedded control plane: development, tests and demos.

`make controlplane` in the root of Kubewright builds etcd. `python -m etcd_operator.local` prints the images for
`kubewright up --images`.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kubewright.machinery import yaml
from kubewright_controlplane import Image

from etcd_operator.settings import own_image

OLD: Final = "3.6.16"
NEW: Final = "3.7.3"
REPOSITORY: Final = "gcr.io/etcd-development/etcd"
_CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
_BUILT: Final = _CACHE / "kubewright" / "controlplane" / "etcd" / "bin"


def images() -> Mapping[str, Image]:
    """Return the images of etcd and of the operator; nothing if etcd is not built."""
    folders = {version: (_BUILT / version).resolve() for version in (OLD, NEW)}
    if not all((folder / "etcdutl").exists() for folder in folders.values()):
        return {}
    return {**{f"{REPOSITORY}:v{version}": _etcd(folder) for version, folder in folders.items()}, own_image(): _agent()}


def _etcd(folder: Path) -> Image:
    """Return an image with `etcd` and `etcdutl` on its PATH."""
    return Image((str(folder / "etcd"),), env={"PATH": f"{folder}:/usr/bin:/bin"}, folders=(str(folder),))


def _agent() -> Image:
    """Return an image with this program, which runs as it is now, without a sandbox."""
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).parents[1])}
    return Image((sys.executable, "-m", "etcd_operator.agent"), env=environment, sandbox=False)


def main() -> int:
    found = images()
    if not found:
        sys.stderr.write("etcd was not found: `make controlplane`, in the root of Kubewright, builds it\n")
        return 1
    table = {
        name: {
            "command": list(each.command), "env": each.env, "folders": list(each.folders), "sandbox": each.sandbox
        }
        for name, each in found.items()
    }  # fmt: skip
    sys.stdout.write(yaml.dump({"images": table}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
