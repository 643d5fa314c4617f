"""Programs behind Services: they answer with the name of their Pod, over TCP and UDP."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from integration.programs import Programs, is_ready
from kubewright import ObjectMeta
from kubewright.apis.core.v1 import Service
from kubewright.models import codec
from kubewright.testing import eventually

PORT = 7070
ANSWERING = f"""
import os, socketserver, threading
name = os.environ["HOSTNAME"].encode()
class Stream(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(self.rfile.read() + b" " + name)
class Datagram(socketserver.BaseRequestHandler):
    def handle(self):
        self.request[1].sendto(self.request[0] + b" " + name, self.client_address)
address = (os.environ["KUBEWRIGHT_BIND_HOST"], {PORT})
socketserver.ThreadingTCPServer.daemon_threads = True
threading.Thread(target=socketserver.UDPServer(address, Datagram).serve_forever).start()
socketserver.ThreadingTCPServer(address, Stream).serve_forever()
"""
WEB = f"""
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/away":
            self.send_response(302)
            self.send_header("location", "/home?a=1")
            self.end_headers()
            return
        body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
        said = [self.command, self.path, body, self.headers.get("x-forwarded-uri"), self.headers.get("authorization")]
        self.send_response(418 if self.path == "/tea" else 200)
        self.end_headers()
        self.wfile.write(repr(said).encode())
    do_POST = do_OPTIONS = do_GET
    def log_message(self, *args): pass
http.server.ThreadingHTTPServer((os.environ["KUBEWRIGHT_BIND_HOST"], {PORT}), Handler).serve_forever()
"""
GREETING = f"""
import base64, hashlib, os, socketserver
GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
class Socket(socketserver.StreamRequestHandler):
    def handle(self):
        first = self.rfile.readline().decode()
        path, headers = first.split(" ")[1] if first else "/none", {{}}
        while line := self.rfile.readline().decode().strip():
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        if path == "/none":
            self.wfile.write(b"HTTP/1.1 418 No\\r\\nContent-Length: 3\\r\\n\\r\\nno\\n")
            return
        key = base64.b64encode(hashlib.sha1((headers["sec-websocket-key"] + GUID).encode()).digest()).decode()
        answer = ["HTTP/1.1 101 Yes", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Accept: " + key]
        answer += ["Sec-WebSocket-Protocol: " + headers["sec-websocket-protocol"], "", ""]
        self.wfile.write("\\r\\n".join(answer).encode())
        self.rfile.read(1)
        said = ("hello " + path).encode()
        self.wfile.write(bytes([0x81, len(said)]) + said)
        self.rfile.read(1)
address = (os.environ["KUBEWRIGHT_BIND_HOST"], {PORT})
socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer(address, Socket).serve_forever()
"""
"""Answers WebSockets with one message: the path."""
READY = {"tcpSocket": {"port": PORT}, "periodSeconds": 1}


async def run(
    programs: Programs, *names: str, program: str = ANSWERING, app: str = "web", subdomain: str = "", **container: Any
) -> None:
    """Run Pods of one program, and wait until they are ready. With a subdomain, their names are host names."""
    image = programs.image(program)
    for name in names:
        ports = [{"name": "answers", "containerPort": PORT}, {"name": "too", "containerPort": PORT, "protocol": "UDP"}]
        given = {"image": image, "ports": ports, "readinessProbe": READY, **container}
        host = {"hostname": name, "subdomain": subdomain} if subdomain else {}
        await programs.pod([given], name, labels={"app": app}, **host)
    for name in names:
        await programs.until(is_ready, name)


async def expose(programs: Programs, name: str = "web", **spec: Any) -> Service:
    """Create a Service. By default, it has the TCP port 8000 and the UDP port 8001."""
    ports = [
        {"name": "tcp", "port": 8000, "targetPort": "answers"},
        {"name": "udp", "port": 8001, "targetPort": "too", "protocol": "UDP"},
    ]
    service = codec.from_dict(Service, {"spec": {"selector": {"app": "web"}, "ports": ports, **spec}})
    service.metadata = ObjectMeta(name=name, namespace=programs.namespace)
    return await programs.client.create(service)


async def ask(host: str, port: int, data: bytes = b"hello") -> str:
    """Send over TCP, close the sending half of the connection, and return the answer."""
    try:
        reader, writer = await asyncio.open_connection(host, port)

        async def send() -> None:
            writer.write(data)
            await writer.drain()
            writer.write_eof()

        _, answer = await asyncio.gather(send(), reader.read())
        writer.close()
    except OSError as error:
        raise AssertionError(f"{host}:{port}: {error}") from error
    return answer.decode()


class Datagrams:
    """A UDP client."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setblocking(False)

    async def ask(self, host: str, port: int, data: bytes = b"hello") -> str:
        """Send a datagram until there is an answer: datagrams may be lost."""
        loop = asyncio.get_running_loop()

        async def once() -> str:
            await loop.sock_sendto(self.socket, data, (host, port))
            try:
                async with asyncio.timeout(0.5):
                    return (await loop.sock_recv(self.socket, 1 << 16)).decode()
            except (OSError, TimeoutError) as error:
                raise AssertionError(f"{host}:{port}: no answer") from error

        return await eventually(once)

    def __enter__(self) -> Datagrams:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


async def refuses(host: str, port: int) -> None:
    try:
        _, writer = await asyncio.open_connection(host, port)
    except ConnectionRefusedError:
        return
    writer.close()
    raise AssertionError(f"{host}:{port} is open")
