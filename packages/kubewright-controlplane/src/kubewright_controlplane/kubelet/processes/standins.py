"""Commands that stand in for images which examples and tutorials use, so that their Pods run as processes.

    nginx      a small web server on port 80: what is mounted at /usr/share/nginx/html, or else a page that names the
               image and the Pod. It knows nothing of nginx's configuration and takes no arguments
    busybox    `sh` and the programs of this machine

They are used where somebody asks for them; otherwise Pods of these images are simulated.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kubewright_controlplane.kubelet.processes import webserver
from kubewright_controlplane.kubelet.processes.images import Image

_HTML: Final = "usr/share/nginx/html"
"""In the container's root, which is the folder that its program starts in."""

STAND_INS: Final[Mapping[str, Image]] = {
    "nginx:*": Image(
        (sys.executable, "-I", "-S", str(Path(webserver.__file__)), _HTML, "$(KUBEWRIGHT_PORT_80)"), ports=(80,)
    ),
    "busybox:*": Image(("sh",)),
}
"""For `Environment(images=STAND_INS)`, `Demo(images=STAND_INS, ...)` and `kubewright up --stand-ins`."""
