"""Containers in sandboxes that bubblewrap makes: their own root folder, mounts, processes, host name and user.

Guarantees
    A container can change nothing outside its Pod's folder, except volumes that are folders on this machine.
    The processes of a container end with its first process, and with the control plane.
    A container does not see the folders of other Pods, nor the data of the control plane.
Not guaranteed
    A container can read the files of this machine that its user can read, and shares the network with this machine.
    A version of bubblewrap without `--bind-fd` mounts paths: a program that replaces the folder of a `subPath` by a
    symbolic link at the right moment gets another folder mounted.

Source: https://github.com/containers/bubblewrap
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kubewright.apis.core.v1 import Container, Pod
from kubewright_controlplane.kubelet.helpers.exec_helper import CALLS
from kubewright_controlplane.kubelet.names import hostname_of
from kubewright_controlplane.kubelet.process import Command, Launcher
from kubewright_controlplane.kubelet.rootfolder import MACHINE, SYSTEM, Mount, RootFolder, View

_CAPABILITIES: Final = {
    "CHOWN": 0,
    "DAC_OVERRIDE": 1,
    "FOWNER": 3,
    "FSETID": 4,
    "KILL": 5,
    "SETGID": 6,
    "SETUID": 7,
    "SETPCAP": 8,
    "NET_BIND_SERVICE": 10,
    "AUDIT_WRITE": 29,
    "SETFCAP": 31,
}
"""The capabilities of containers that run as root, with their numbers: those of container runtimes that do not reach
beyond the sandbox.
"""
_DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")
_READ_ONLY: Final = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/acpi")
"""Files of the kernel that root could write without any capability."""
_EMPTY: Final = ("/proc/kcore", "/proc/keys", "/proc/timer_list")
_NOBODY: Final = 65532
"""The user of a container that must not run as root and does not name a user: the one that many images name."""
_SWITCHING: Final = ("SETUID", "SETGID")
"""The capabilities that a change of the user needs. They end with it."""
_PATH: Final = "/usr/bin:/bin:/usr/sbin:/sbin"
_TOOLS: Final = "/.kubelet"
"""Where a container with files of its own finds the tools of this machine."""
_PAUSE: Final = ("sleep", "infinity")
_SHARED_MEMORY: Final = 64 << 20
_PROBE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class User:
    """The user that a container runs as. None: the user of the control plane."""

    uid: int | None
    gid: int | None
    groups: tuple[int, ...] = ()
    """The supplementary groups, with the fsGroup."""

    @classmethod
    def of(cls, container: Container, pod: Pod) -> User:
        """Return the user that the security contexts ask for. Raises ValueError if that is impossible."""
        own, shared = container.security_context, pod.spec.security_context
        contexts = [each for each in (own, shared) if each is not None]
        uid = next((each.run_as_user for each in contexts if each.run_as_user is not None), None)
        gid = next((each.run_as_group for each in contexts if each.run_as_group is not None), None)
        refuses_root = next((each.run_as_non_root for each in contexts if each.run_as_non_root is not None), False)
        if refuses_root and uid == 0:
            raise ValueError(
                f"container {container.name} has runAsNonRoot, and runAsUser is 0: choose another runAsUser"
            )
        if refuses_root and uid is None and os.geteuid() == 0:
            uid, gid = _NOBODY, _NOBODY if gid is None else gid
        if own is not None and own.privileged:
            raise ValueError(
                f"container {container.name} is privileged, which no sandbox permits: remove "
                "securityContext.privileged, or set sandbox: false for its image"
            )
        return cls(uid, gid, _groups(pod))

    @property
    def is_other(self) -> bool:
        """Whether this is another user than the one of the control plane."""
        return bool(self.groups) or self.uid not in (None, os.geteuid()) or self.gid not in (None, os.getegid())


def _groups(pod: Pod) -> tuple[int, ...]:
    """Return the supplementary groups of a Pod. Raises ValueError if this user can't use them."""
    context = pod.spec.security_context
    if context is None:
        return ()
    if os.geteuid() == 0:
        return tuple({*context.supplemental_groups, *([] if context.fs_group is None else [context.fs_group])})
    if context.supplemental_groups:
        raise ValueError(
            "securityContext.supplementalGroups: only root can give a process other groups: run the control plane as "
            "root, or remove the field"
        )
    return ()  # volumes belong to the user of the control plane, who is the user of the container


@dataclass(frozen=True, slots=True)
class Tool:
    """A program of this machine that prepares the process of a container: it changes the user, or takes the terminal.

    In the sandbox of an image with files of its own, it is mounted with its libraries.
    """

    path: Path
    loader: Path
    """The program that loads its libraries."""
    libraries: Sequence[Path]

    @classmethod
    async def find(cls, name: str) -> Tool | None:
        """Return a tool; None if this machine does not have it."""
        found = shutil.which(name, path=_PATH)
        if found is None:
            return None
        _, output = await _run("ldd", found)
        files = [Path(each) for each in re.findall(r"(?:^|=>)\s*(/\S+)", output, re.MULTILINE)]
        loaders = [each for each in files if each.name.startswith("ld-")]
        return cls(Path(found), loaders[0], files) if loaders else None

    def command(self, base: Path) -> list[str]:
        """Return the beginning of a command with the tool, in a sandbox above `base`."""
        if base == MACHINE:
            return [self.path.name]
        return [f"{_TOOLS}/{self.loader.name}", "--library-path", _TOOLS, f"{_TOOLS}/{self.path.name}"]


@dataclass(frozen=True, slots=True)
class Isolation:
    """The sandboxes of one control plane."""

    program: str
    """The path of bubblewrap."""
    private: Callable[[], Sequence[Path]]
    """Returns files and folders that no container sees: the data of the control plane, and its kubeconfigs."""
    has_descriptors: bool
    """Whether bubblewrap mounts file descriptors."""
    changes_sockets: bool
    """Whether the kubelet may change the addresses of sockets."""
    protected: Sequence[str]
    """The files of `/etc` that not every user can read, if this is root."""
    setpriv: Tool | None
    """Changes the user."""
    setsid: Tool | None
    """Takes the terminal."""

    def launcher(
        self, container: Container, pod: Pod, user: User, root: RootFolder, folder: str, join: int | None
    ) -> Launcher:
        """Return how to start a process in the sandbox of a container.

        With `join`, the process ID of another launcher, it shares the processes of that sandbox.
        """
        view, host_pid = root.view(), bool(pod.spec.host_pid)
        # A user namespace of its own protects the processes of the machine from those that see them.
        is_root = os.geteuid() == 0 and not host_pid
        switch = _switch(user, self.setpriv, root.base) if is_root and self.setpriv is not None else []
        rooted = is_root and (bool(switch) or not user.is_other)
        kept = _capabilities(container) if rooted else []
        security = container.security_context
        arguments = ["--bind", str(root.root), "/"]
        for source, target in root.base_mounts():
            arguments += ("--ro-bind", source, target)
        arguments += [*self._masks(root), *_kernel_files(host_pid)]
        if root.base != MACHINE:
            arguments += self._tools()
        opened: list[tuple[str, str, str, str]] = []
        mounts: list[str] = []
        for each in root.mounts:
            option = "--ro-bind" if each.read_only else "--bind"
            if each.within and self.has_descriptors:
                opened.append((f"{option}-fd", str(each.source), each.within, each.target))
            else:
                mounts += (option, str(each.place), each.target)
        after = [
            *(("--remount-ro", "/") if security is not None and security.read_only_root_filesystem else ()),
            *(() if host_pid or join is not None else ("--unshare-pid",)),
            *("--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--die-with-parent"),
            *("--hostname", hostname_of(pod), "--chdir", folder, "--cap-drop", "ALL"),
            *(word for each in {*kept, *(_SWITCHING if switch else ())} for word in ("--cap-add", f"CAP_{each}")),
            *(() if rooted or join is not None else _user_namespace(user)),
        ]
        takes_terminal = container.tty and self.setsid is not None
        terminal = [*self.setsid.command(root.base), "--ctty", "--wait"] if takes_terminal and self.setsid else []
        return Launcher(
            program=self.program,
            arguments=[*arguments, *mounts],
            opened=opened,
            options=after,
            prefix=[*terminal, *switch],
            join=join,
            takes_terminal=bool(terminal),
            read_only=[f"/dev/{name}" for name in _DEVICES],
            capabilities=[_CAPABILITIES[each] for each in kept],
            view=view,
            user=(user.uid or 0, user.gid or 0, list(user.groups)) if switch else None,
        )

    def _tools(self) -> Iterator[str]:
        """Yield the mounts of the tools."""
        tools = [each for each in (self.setpriv, self.setsid) if each is not None]
        files = {path.name: path for each in tools for path in (each.path, *each.libraries)}
        yield from ("--perms", "0755", "--tmpfs", _TOOLS)
        for name, path in files.items():
            yield from ("--ro-bind", str(path), f"{_TOOLS}/{name}")
        yield from ("--remount-ro", _TOOLS)

    def pause(self) -> Command:
        """Return a command that holds the processes of a Pod together until it is killed.

        Containers can reach its files, so its sandbox contains only programs of the system.
        """
        arguments = [
            *(word for name in SYSTEM if name != "etc" for word in _system_folder(MACHINE / name)),
            *("--unshare-pid", "--die-with-parent", "--cap-drop", "ALL"),
            *(() if os.geteuid() == 0 else ("--unshare-user",)),
        ]
        launcher = Launcher(program=self.program, arguments=arguments, view=View({"/": MACHINE}))
        return Command(_PAUSE, {"PATH": _PATH}, "/", launcher)

    def _masks(self, root: RootFolder) -> Iterator[str]:
        """Yield the mounts that hide files which a container must not read."""
        places = list(root.base_mounts())
        for path in (*self.protected, *(str(each.resolve()) for each in self.private())):
            for source, target in places:
                if Path(path).is_relative_to(source) and os.path.exists(path):
                    at = os.path.normpath(f"{target}/{Path(path).relative_to(source)}")
                    yield from (("--tmpfs", at) if os.path.isdir(path) else ("--ro-bind", "/dev/null", at))


def _system_folder(path: Path) -> Iterator[str]:
    """Yield the options for a folder that has the same path in a sandbox."""
    if path.is_symlink():
        yield from ("--symlink", os.readlink(path), str(path))
    elif path.is_dir():
        yield from ("--ro-bind", str(path), str(path))


def _switch(user: User, setpriv: Tool, base: Path) -> list[str]:
    """Return a command that changes to the user and runs another command; empty if it need not."""
    if not user.is_other:
        return []
    uid, gid = user.uid or 0, user.gid or 0
    groups = ",".join(str(each) for each in user.groups)
    return [
        *setpriv.command(base), f"--reuid={uid}", f"--regid={gid}",
        f"--groups={groups}" if groups else "--clear-groups",
        *(("--inh-caps=-all", "--ambient-caps=-all") if uid else ()), "--",
    ]  # fmt: skip


async def find_isolation(private: Callable[[], Sequence[Path]]) -> Isolation | str:
    """Return the sandboxes of this machine, or the reason why there are none."""
    program = shutil.which("bwrap")
    if not sys.platform.startswith("linux") or program is None:
        return "bubblewrap is not installed: install the package bubblewrap"
    probe = ["--ro-bind", "/", "/", "--unshare-pid", "--unshare-uts", "--unshare-ipc", "--proc", "/proc"]
    own = () if os.geteuid() == 0 else ("--unshare-user",)
    status, output = await _run(program, *probe, *own, "--die-with-parent", "--", "true")
    if status != 0:
        return f"bubblewrap does not work here: {output.strip()}; see whether user namespaces are permitted"
    _, options = await _run(program, "--help")
    protected = await asyncio.to_thread(lambda: list(_unreadable("/etc"))) if os.geteuid() == 0 else []
    # A program that changes its user, as bubblewrap does on some machines, does not work below a filter.
    changes_sockets = os.uname().machine in CALLS and not os.stat(program).st_mode & stat.S_ISUID
    tools = await asyncio.gather(Tool.find("setpriv"), Tool.find("setsid"))
    return Isolation(program, private, "--ro-bind-fd" in options, changes_sockets, protected, *tools)


def _unreadable(folder: str) -> Iterator[str]:
    """Yield the files and folders below `folder` that only some users can read."""
    for entry in os.scandir(folder):
        if entry.is_symlink():
            continue
        wanted = 0o005 if entry.is_dir() else 0o004
        if entry.stat().st_mode & wanted != wanted:
            yield entry.path
        elif entry.is_dir():
            yield from _unreadable(entry.path)


async def _run(*command: str) -> tuple[int, str]:
    """Run a command. Returns its exit status and its output."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=asyncio.subprocess.STDOUT)
    try:
        output, _ = await asyncio.wait_for(process.communicate(), _PROBE_SECONDS)
    except TimeoutError:
        process.kill()
        return 1, f"no answer within {_PROBE_SECONDS:g} s"
    return process.returncode or 0, output.decode(errors="replace")


def mounts_of_files(files: Sequence[tuple[Path, str]], mounts: Sequence[Mount]) -> list[Mount]:
    """Return mounts for files of the kubelet, except where the Pod mounts something else."""
    taken = {each.target for each in mounts}
    return [Mount(source, target, read_only=True) for source, target in files if target not in taken]


def _user_namespace(user: User) -> Iterator[str]:
    yield "--unshare-user"
    if user.uid is not None:
        yield from ("--uid", str(user.uid))
    if user.gid is not None:
        yield from ("--gid", str(user.gid))


def _kernel_files(host_pid: bool) -> Iterator[str]:
    yield from ("--ro-bind", "/sys", "/sys")
    yield from ("--ro-bind", "/proc", "/proc") if host_pid else ("--proc", "/proc")
    for path in () if host_pid else _READ_ONLY:
        if Path(path).exists():
            yield from ("--ro-bind", path, path)
    for path in _EMPTY:
        if Path(path).exists():
            yield from ("--ro-bind", "/dev/null", path)
    yield from ("--perms", "0755", "--tmpfs", "/dev")
    for name in _DEVICES:
        yield from ("--dev-bind", f"/dev/{name}", f"/dev/{name}")
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        yield from ("--symlink", f"/proc/self/fd/{number}", f"/dev/{name}")
    yield from ("--symlink", "/proc/self/fd", "/dev/fd")
    yield from ("--perms", "1777", "--size", str(_SHARED_MEMORY), "--tmpfs", "/dev/shm")


def _capabilities(container: Container) -> list[str]:
    """Return the capabilities of a container that runs as root, of those that a sandbox permits."""
    wanted = container.security_context.capabilities if container.security_context is not None else None
    if wanted is None:
        return list(_CAPABILITIES)
    dropped, added = set(wanted.drop), set(wanted.add)
    return [each for each in _CAPABILITIES if each in added or not ({each, "ALL"} & dropped) or "ALL" in added]
