"""`kube-apiserver` for envtest: the embedded API server, with the flags of the real one.

Objects are kept in the data folder of the stand-in for etcd, so that they outlive this program.
"""

from __future__ import annotations

import os
import sys
import time
from typing import NoReturn

from kubewright_controlplane.envtest.flags import FlagError, HelpRequested, help_text, known_flags, parse_pflags


def main() -> None:
    """Run `kube-apiserver` until a signal, or until the program that started it is gone."""
    known = known_flags("kube-apiserver")
    try:
        flags = parse_pflags(known, sys.argv[1:])
    except HelpRequested:
        sys.stdout.write(help_text("kube-apiserver", known))
        return
    except FlagError as error:
        sys.stderr.write(f"Error: {error}\n")
        sys.exit(1)
    # the API server is imported only now, so that `--help` and errors are fast
    from kubewright.machinery.errors import KubewrightError
    from kubewright_controlplane.envtest import serving, settings

    if "version" in flags.given:
        sys.stdout.write(f"Kubernetes {serving.kubernetes_version()}\n")
        return
    try:
        serving.serve(settings.read_settings(flags, _warn))
    except KubewrightError as error:
        _fail(str(error))


def _warn(text: str) -> None:
    sys.stderr.write(_line("W", text))


def _fail(text: str) -> NoReturn:
    shown = text.replace("\\", "\\\\").replace('"', '\\"')
    sys.stderr.write(_line("E", f'"command failed" err="{shown}"'))
    sys.exit(1)


def _line(severity: str, text: str) -> str:
    """Return a line of klog, as programs that read the real log expect it."""
    now = time.time()
    moment = time.strftime("%m%d %H:%M:%S", time.localtime(now))
    return f"{severity}{moment}.{int(now % 1 * 1e6):06d} {os.getpid():7d} kubewright-controlplane:1] {text}\n"


if __name__ == "__main__":
    main()
