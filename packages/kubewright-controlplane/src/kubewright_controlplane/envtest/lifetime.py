"""The life of a program that another program starts: it ends with its parent.

Suites start etcd and kube-apiserver, and stop them at their end. A suite that is killed cannot. The programs then end
on their own, and remove the temporary folders that envtest made for them.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

_EVERY: Final = 0.5
_MADE_BY_ENVTEST: Final = "k8s_test_framework_"
"""The prefix of the temporary folders that envtest makes, and removes when it stops the programs."""


def end_with_parent(on_end: Callable[[], None]) -> None:
    """Call `on_end`, in a thread, when the program that started this one is gone.

    It is not called for a program that was meant to outlive its parent: nohup ignores SIGHUP, and setsid starts a
    session. Nor is it called for a child of process 1, the parent of a container's processes.
    """
    parent = os.getppid()
    meant_to_stay = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN or os.getsid(0) == os.getpid()
    if parent > 1 and not meant_to_stay:
        threading.Thread(target=_watch, args=(parent, on_end), daemon=True).start()


def remove_temporary(folder: Path) -> None:
    """Remove a folder that envtest made. Others belong to the user."""
    # these are slow to import, and needed only here
    import shutil
    import tempfile

    if folder.name.startswith(_MADE_BY_ENVTEST) and folder.resolve().parent == Path(tempfile.gettempdir()).resolve():
        shutil.rmtree(folder, ignore_errors=True)


def _watch(parent: int, on_end: Callable[[], None]) -> None:
    while os.getppid() == parent:
        time.sleep(_EVERY)
    on_end()
