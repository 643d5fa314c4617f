"""A program, `python -I -S exec_helper.py FD`: reads a command from the file descriptor FD, and becomes it.

It reads to the end first. So no command runs before the control plane has registered the process group with the
reaper, and if the control plane dies before that, this program exits. The command gets the given environment and no
other variables, and on request its standard input as its controlling terminal.

With a launcher, it becomes the launcher of a sandbox, which runs the command. With `inside`, it enters the sandbox of
that launcher, drops its privileges and runs the command as a child.

A process in a sandbox can reach the executable files of its launcher and of this program, by `/proc/PID/exe`. So both
are executed from mounts that are read-only.
"""

import fcntl
import json
import os
import signal
import stat
import struct
import sys
import termios
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

CANNOT_START = 128
"""The exit status if the command can't be started, as in container runtimes."""
_NAMESPACES = ("user", "pid", "ipc", "uts", "cgroup", "mnt")
"""In the order in which they are entered: the first permits to enter the others."""
_LAST_CAPABILITY = 63
_DEATH_SIGNAL, _DUMPABLE, _DROP_CAPABILITY, _NO_NEW_PRIVILEGES, _AMBIENT = 1, 4, 24, 38, 47
"""Numbers of options of prctl(2)."""
_AMBIENT_RAISE, _AMBIENT_CLEAR = 2, 4
_CAPABILITY_VERSION = 0x20080522
_NEW_MOUNTS = 0x20000
_READ_ONLY, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 1, 32, 4096, 16384, 1 << 18
_MOUNT_FLAGS = {os.ST_NOSUID: 2, os.ST_NODEV: 4, os.ST_NOEXEC: 8, os.ST_NOATIME: 1024, os.ST_RELATIME: 1 << 21}
"""The flags of a mount in statvfs(3), and in mount(2)."""
_START_SECONDS = 10.0


class Calls(NamedTuple):
    """The numbers of system calls on one kind of machine, and the number of that kind."""

    architecture: int
    bind: int
    connect: int
    seccomp: int


CALLS = {"x86_64": Calls(0xC000003E, 49, 42, 317), "aarch64": Calls(0xC00000B7, 200, 203, 277)}
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
"""Instructions of a filter."""
_ALLOW, _REPORT = 0x7FFF0000, 0x7FC00000
"""What a filter returns."""
_SET_FILTER, _NEW_LISTENER = 1, 8


def main() -> int:
    with os.fdopen(int(sys.argv[1]), "rb") as source:
        text = source.read()
    if not text:
        return CANNOT_START
    command = json.loads(text)
    if command["terminal"] and command["owns_terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # the interpreter ignores them, a new process must not
        signal.signal(number, signal.SIG_DFL)
    try:
        if "inside" in command:
            return run_inside(command)
        if "launcher" in command:
            launch(command)
        os.chdir(command["folder"])
        os.execvpe(command["arguments"][0], command["arguments"], command["environment"])
    except OSError as error:
        sys.stderr.write(f"cannot start {command['arguments'][0]}: {error.strerror}\n")
    return CANNOT_START


# ---- the launcher of a sandbox -----------------------------------------------------------------------------------


def launch(command: dict[str, Any]) -> None:
    """Become the launcher. It gets its options, and the variables of the command, in a file that no one else sees."""
    program, options, opened, more, last, shielded = command["launcher"]
    for option, folder, path, target in opened:
        descriptor = open_below(folder, path)
        os.set_inheritable(descriptor, True)
        options += [option, str(descriptor), target]
    if command["join"] is not None:
        options += joined(first_process(command["join"]))
    variables = [word for pair in command["environment"].items() for word in ("--setenv", *pair)]
    give_output(command["user"])
    if os.geteuid() == 0:  # the owner, who could change their modes
        mount_read_only([program, *shielded])
    words = b"".join(os.fsencode(word) + b"\0" for word in (*options, *more, *variables))
    report_calls(command)
    os.execve(program, [program, "--args", memory_file(words), "--", *last, *command["arguments"]], {})


def joined(pid: int) -> list[str]:
    """Return the options of a sandbox that shares the processes of another one."""
    options: list[str] = []
    for option, name in (("--userns", "user"), ("--pidns", "pid")):
        if not is_shared(pid, name):
            descriptor = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY)
            os.set_inheritable(descriptor, True)
            options += [option, str(descriptor)]
    return options


def memory_file(content: bytes) -> str:
    """Return the number of a descriptor of a file in memory. A program that is executed can read it from its start."""
    descriptor = os.memfd_create("arguments", 0)
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return str(descriptor)


def give_output(user: tuple[int, int, list[int]] | None) -> None:
    """Let another user open the output again, by `/dev/stdout`."""
    for descriptor in (0, 1, 2):
        if user is not None and not stat.S_ISCHR(os.fstat(descriptor).st_mode):
            os.fchown(descriptor, user[0], user[1])


def open_below(folder: str, path: str) -> int:
    """Open a file or folder below `folder`. Raises OSError if there is a symbolic link on the way."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    for part in path.split("/"):
        if part in ("", "."):
            continue
        inner = os.open(part, os.O_PATH | os.O_NOFOLLOW, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    if stat.S_ISLNK(os.fstat(descriptor).st_mode):
        raise OSError(0, f"{path} is a symbolic link")
    return descriptor


def mount_read_only(paths: list[str]) -> None:
    """Mount files read-only over themselves, in a new mount namespace of this process."""
    libc = load_libc()
    check(libc.unshare(_NEW_MOUNTS))
    check(libc.mount(None, b"/", None, _RECURSIVE | _PRIVATE, None))
    for path in paths:
        name, current = os.fsencode(path), os.statvfs(path).f_flag
        flags = sum(number for flag, number in _MOUNT_FLAGS.items() if current & flag)
        check(libc.mount(name, name, None, _BIND, None))
        check(libc.mount(None, name, None, _REMOUNT | _BIND | _READ_ONLY | flags, None))


# ---- the calls that the kubelet answers --------------------------------------------------------------------------


def report_calls(command: dict[str, Any]) -> None:
    """Let the kernel report `bind` and `connect` of this process and its children to the control plane.

    Does nothing where the kernel does not permit it.
    """
    if command["channel"] is None:
        return
    import _socket
    import ctypes

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))

    calls, instructions = CALLS[os.uname().machine], []
    for code, value, yes, no in (
        (_LOAD, 4, 0, 0),
        (_JUMP_IF_EQUAL, calls.architecture, 0, 4),
        (_LOAD, 0, 0, 0),
        (_JUMP_IF_EQUAL, calls.bind, 1, 0),
        (_JUMP_IF_EQUAL, calls.connect, 0, 1),
        (_RETURN, _REPORT, 0, 0),
        (_RETURN, _ALLOW, 0, 0),
    ):
        instructions.append(struct.pack("HBBI", code, yes, no, value))
    program = Program(len(instructions), b"".join(instructions))
    prctl(_NO_NEW_PRIVILEGES, 1)
    found = load_libc().syscall(calls.seccomp, _SET_FILTER, _NEW_LISTENER, ctypes.byref(program))
    channel = _socket.socket(fileno=command["channel"])
    if found >= 0:
        channel.sendmsg([b"."], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("i", found))])
        os.close(found)
    channel.close()


# ---- a command in a sandbox that exists --------------------------------------------------------------------------


def run_inside(command: dict[str, Any]) -> int:
    """Run a command in the sandbox of a launcher. Returns its exit status."""
    if not command.get("protected"):
        execute_again(command)
    give_output(command["user"])
    if command["channel"] is not None:
        import _socket  # noqa: F401 - while the files of this machine are visible
    prctl(_DUMPABLE, 0)  # no process of the sandbox looks into this one
    enter(command["first"], _NAMESPACES[1:])
    child = os.fork()
    if child == 0:
        try:
            drop_privileges(command["capabilities"], command["user"])
            prctl(_DEATH_SIGNAL, signal.SIGKILL)
            os.setsid()
            if command["terminal"]:
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            os.chdir(command["folder"])
            report_calls(command)
            os.execvpe(command["arguments"][0], command["arguments"], command["environment"])
        except OSError as error:
            sys.stderr.write(f"cannot start {command['arguments'][0]}: {error.strerror}\n")
        os._exit(CANNOT_START)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return 128 - status if status < 0 else status


def execute_again(command: dict[str, Any]) -> None:
    """Execute this program again, from a read-only mount, with the privileges to enter the sandbox."""
    first = first_process(command["inside"])
    enter(first, _NAMESPACES[:1])
    keep_privileges()
    program = os.path.realpath(sys.executable)
    mount_read_only([program])
    again = memory_file(json.dumps({**command, "first": first, "protected": True}).encode())
    os.execve(program, [program, "-I", "-S", __file__, again], {})


def first_process(launcher: int) -> int:
    """Return the first process in the sandbox of a launcher, once the sandbox runs its command."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        found = list(first_descendants(launcher))
        if any(name_of(each) != name_of(launcher) for each in found):
            return next(each for each in found if not is_shared(each, "mnt", launcher))
        time.sleep(0.005)
    raise ProcessLookupError(0, "the container does not run")


def first_descendants(pid: int) -> Iterator[int]:
    """Yield the first child of a process, the first child of that, and so on."""
    while children := children_of(pid):
        pid = children[0]
        yield pid


def children_of(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(each) for each in file.read().split()]


def name_of(pid: int) -> str:
    with open(f"/proc/{pid}/comm") as file:
        return file.read()


def enter(pid: int, namespaces: tuple[str, ...]) -> None:
    """Enter the namespaces of a process, except those that this process shares with it."""
    names = [name for name in namespaces if os.path.exists(f"/proc/{pid}/ns/{name}") and not is_shared(pid, name)]
    for descriptor in [os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY) for name in names]:
        check(load_libc().setns(descriptor, 0))
        os.close(descriptor)


def is_shared(pid: int, name: str, other: int | str = "self") -> bool:
    """Return whether two processes are in the same namespace."""
    return os.stat(f"/proc/{pid}/ns/{name}").st_ino == os.stat(f"/proc/{other}/ns/{name}").st_ino


def keep_privileges() -> None:
    """Keep all capabilities in this user namespace when another program is executed."""
    import ctypes

    header, every = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    check(load_libc().capget(header, every))
    every[2], every[5] = every[1], every[4]  # inheritable: those that are permitted
    check(load_libc().capset(header, every))
    for number in range(_LAST_CAPABILITY + 1):
        load_libc().prctl(_AMBIENT, _AMBIENT_RAISE, number, 0, 0)  # fails for numbers that the kernel does not know


def drop_privileges(capabilities: list[int], user: tuple[int, int, list[int]] | None) -> None:
    """Become `user`, and keep no privileges but `capabilities`."""
    import ctypes

    libc = load_libc()
    prctl(_AMBIENT, _AMBIENT_CLEAR)
    for number in range(_LAST_CAPABILITY + 1):
        if number not in capabilities:
            libc.prctl(_DROP_CAPABILITY, number, 0, 0, 0)  # fails for numbers that the kernel does not know
    if user is not None:
        os.setgroups(user[2])
        os.setgid(user[1])
        os.setuid(user[0])
    header, kept = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    for number in capabilities if os.geteuid() == 0 else ():
        for part in (0, 1):
            kept[3 * (number // 32) + part] |= 1 << number % 32
    check(libc.capset(header, kept))
    prctl(_NO_NEW_PRIVILEGES, 1)


def prctl(option: int, value: int) -> None:
    check(load_libc().prctl(option, value, 0, 0, 0))


def check(result: int) -> None:
    """Raise the error of the last call of the C library if it failed."""
    import ctypes

    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def load_libc() -> Any:
    import ctypes  # slow to load, and not needed without a sandbox

    return ctypes.CDLL(None, use_errno=True)


if __name__ == "__main__":
    sys.exit(main())
