"""`etcd` for envtest: says that it is healthy, and where its data folder is.

The stand-in for kube-apiserver keeps its objects in that folder. It finds the folder by a request to the URL in its
--etcd-servers.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path
from types import FrameType
from typing import Final

from kubewright_controlplane.envtest import lifetime
from kubewright_controlplane.envtest.flags import (
    FlagError,
    Flags,
    HelpRequested,
    help_text,
    known_flags,
    parse_go_flags,
)

FOLDER_PATH: Final = "/kubewright/data-dir"
"""The path that answers with the data folder, and with `unsynced` in the next line if writes need not be on disk."""
_PEERS: Final = "http://localhost:2380"
_CLIENTS: Final = "http://localhost:2379"
_PATIENCE: Final = 2.0
"""Seconds that a client may take to send its request."""
_LONGEST: Final = 65536


def main() -> None:
    """Run `etcd` until a signal, or until the program that started it is gone."""
    known = {**known_flags("etcd"), "config-file": ("string", "")}
    if sys.argv[1:] in (["--version"], ["-version"], ["version"]):
        sys.stdout.write("etcd Version: 3.6.8\nGit SHA: Not provided (kubewright-controlplane, for envtest)\n")
        return
    try:
        flags = parse_go_flags(known, sys.argv[1:])
        _serve(flags)
    except HelpRequested:
        sys.stdout.write(help_text("etcd", known))
    except FlagError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)
    except OSError as error:
        sys.stderr.write(f"etcd: {error.filename}: {error.strerror}\n")
        sys.exit(1)


def _serve(flags: Flags) -> None:
    folder = Path(flags.text("data-dir") or f"{flags.text('name') or 'default'}.etcd").absolute()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    peers = [_listener(url) for url in _urls(flags, "listen-peer-urls", _PEERS)]
    clients = [_listener(url) for url in _urls(flags, "listen-client-urls", _CLIENTS)]
    unsynced = flags.is_true("unsafe-no-fsync")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    lifetime.end_with_parent(lambda: _end_orphaned(folder))
    _answer(clients, f"{folder}\n{'unsynced' if unsynced else ''}")
    del peers


def _urls(flags: Flags, name: str, default: str) -> list[str]:
    """Return the URLs to listen on. Raises FlagError for one that is not plain HTTP."""
    urls = (flags.text(name) or default).split(",")
    for url in urls:
        if not url.startswith("http://"):
            raise FlagError(f'--{name}: must be an http:// URL here, got "{url}"; TLS is not supported')
    return urls


def _listener(url: str) -> socket.socket:
    host, _, port = url.removeprefix("http://").rstrip("/").rpartition(":")
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, int(port)), family=family, backlog=128)
    except OSError as error:
        raise OSError(error.errno, os.strerror(error.errno or 0), url) from error


def _answer(listeners: list[socket.socket], folder: str) -> None:
    """Answer requests, one at a time: the few clients are on this machine."""
    # selectors is imported after the checks, so that `--help` is fast
    import selectors

    with selectors.DefaultSelector() as selector:
        for each in listeners:
            selector.register(each, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                assert isinstance(key.fileobj, socket.socket)
                connection, _ = key.fileobj.accept()
                with connection:
                    _answer_one(connection, folder)


def _answer_one(connection: socket.socket, folder: str) -> None:
    connection.settimeout(_PATIENCE)
    request = b""
    try:
        while b"\r\n\r\n" not in request and len(request) < _LONGEST:
            part = connection.recv(_LONGEST)
            if not part:
                return
            request += part
        status, body = _response(request.split(b" ", 2)[1].decode(errors="replace").partition("?")[0], folder)
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        connection.sendall(f"{head}Connection: close\r\n\r\n{body}".encode())
    except (OSError, IndexError):
        return  # a client that is slow, gone, or does not speak HTTP


def _response(path: str, folder: str) -> tuple[str, str]:
    answers = {
        "/health": '{"health":"true","reason":""}',
        "/readyz": "ok\n",
        "/livez": "ok\n",
        "/version": '{"etcdserver":"3.6.8","etcdcluster":"3.6.0","storage":"3.6.0"}',
        FOLDER_PATH: folder,
    }
    return ("200 OK", answers[path]) if path in answers else ("404 Not Found", "404 page not found\n")


def _end(number: int, frame: FrameType | None) -> None:
    os._exit(0)  # nothing is held that the system does not release


def _end_orphaned(folder: Path) -> None:
    lifetime.remove_temporary(folder)
    os._exit(0)


if __name__ == "__main__":
    main()
