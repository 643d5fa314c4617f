"""A program, `python -I -S agnhost.py COMMAND ...`: the commands of Kubernetes' test image agnhost that need no more
than a network and files.

Servers listen at the Pod's address. A command or path that is missing here is refused with an error that says so.

Source: https://github.com/kubernetes/kubernetes/tree/v1.36.1/test/images/agnhost
"""

import argparse
import json
import os
import random
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import BaseRequestHandler, TCPServer, ThreadingTCPServer, ThreadingUDPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

HOST = os.environ.get("KUBEWRIGHT_BIND_HOST", "127.0.0.1")
DATAGRAM = 2048
SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
ALIVE_SECONDS = 10.0
"""How long `liveness` is healthy."""
DIAL_SECONDS = 5.0
MOST_TRIES = 1000


class Answer(NamedTuple):
    """The answer to a request."""

    text: str
    status: int = HTTPStatus.OK
    headers: Mapping[str, str] = {}


Route = Callable[["Handler", dict[str, str]], Answer]


class Handler(BaseHTTPRequestHandler):
    """Serves the requests of a table of paths. The path `/` stands for every path without an entry."""

    server_version = "agnhost-stand-in"
    sys_version = ""
    protocol_version = "HTTP/1.1"

    def __init__(self, routes: Mapping[str, Route], *arguments: Any) -> None:
        self._routes = routes
        super().__init__(*arguments)

    def do_GET(self) -> None:
        target = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(target.query, keep_blank_values=True).items()}
        if self.headers.get("Content-Length", "0") != "0":
            self.close_connection = True  # no path needs a body
        route = self._routes.get(target.path) or self._routes["/"]
        answer = route(self, query)
        content = answer.text.encode()
        self.send_response(answer.status)
        for name, value in {"Content-Type": "text/plain; charset=utf-8", **answer.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_HEAD = do_GET

    def log_message(self, format: str, *arguments: Any) -> None:
        log(f"{self.command} {self.path}")


class WebServer(ThreadingHTTPServer):
    request_queue_size = 128

    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # HTTPServer's would look the address up in DNS


class Raw(BaseRequestHandler):
    """Answers a connection, or a datagram, with the text that `reply` returns for it."""

    def __init__(self, reply: Callable[[str, str], str], *arguments: Any) -> None:
        self._reply = reply
        super().__init__(*arguments)

    def handle(self) -> None:
        client = "{}:{}".format(*self.client_address[:2])
        if isinstance(self.request, tuple):
            data, answering = self.request
            answer = self._reply(data.decode(errors="replace").strip(), client)
            answering.sendto(answer.encode(), self.client_address)
        else:
            self.request.sendall(self._reply("", client).encode())


def log(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%Y/%m/%d %H:%M:%S')} {text}\n")
    sys.stderr.flush()


def port_of(number: int) -> int:
    """Return the port at which a program listens that wants to listen at `number`."""
    return int(os.environ.get(f"KUBEWRIGHT_PORT_{number}", number))


def begin(server: Any, what: str, number: int) -> None:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    log(f"Serving {what} on port {number}")


def serve_http(routes: Mapping[str, Route], number: int) -> None:
    begin(WebServer((HOST, port_of(number)), partial(Handler, routes)), "HTTP", number)


def serve_udp(reply: Callable[[str, str], str], number: int) -> None:
    begin(ThreadingUDPServer((HOST, port_of(number)), partial(Raw, reply)), "UDP", number)


def serve_tcp(reply: Callable[[str, str], str], number: int) -> None:
    ThreadingTCPServer.allow_reuse_address = True
    begin(ThreadingTCPServer((HOST, port_of(number)), partial(Raw, reply)), "TCP", number)


def wait_for_signal(delay: float = 0.0) -> int:
    """Wait until the Pod ends."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    ended.wait()
    time.sleep(delay)
    return 0


def seconds(text: str) -> float:
    """Read a duration such as `1m30s`."""
    if not re.fullmatch(r"(\d+(\.\d+)?(ms|s|m|h))+|0", text):
        raise argparse.ArgumentTypeError(f"invalid duration {text!r}: write one such as 500ms, 10s or 1m30s")
    return sum(float(number) * SECONDS[unit] for number, unit in re.findall(r"([\d.]+)(ms|s|m|h)", text))


# ---- servers -----------------------------------------------------------------------------------------------------


def pause(_: argparse.Namespace) -> int:
    log("Paused")
    return wait_for_signal()


def netexec(options: argparse.Namespace) -> int:
    routes: dict[str, Route] = {
        "/": lambda handler, query: Answer(f"NOW: {time.strftime('%Y-%m-%d %H:%M:%S %z')}"),
        "/clientip": lambda handler, query: Answer("{}:{}".format(*handler.client_address[:2])),
        "/serverport": lambda handler, query: Answer(str(options.http_port)),
        "/hostname": lambda handler, query: Answer(socket.gethostname()),
        "/hostName": lambda handler, query: Answer(socket.gethostname()),
        "/healthz": lambda handler, query: Answer(""),
        "/readyz": lambda handler, query: Answer("ok"),
        "/header": header,
        "/echo": echo,
        "/redirect": redirect,
        "/dial": dial,
        "/exit": leave,
        "/shutdown": lambda handler, query: os._exit(0),
        "/shell": missing,
        "/upload": missing,
    }
    if options.udp_port != -1:
        serve_udp(datagram, options.udp_port)
    serve_http(routes, options.http_port)
    return wait_for_signal(options.delay_shutdown)


def missing(handler: Handler, query: dict[str, str]) -> Answer:
    path = urlsplit(handler.path).path
    return Answer(f"the stand-in for agnhost does not have {path}; use the image\n", HTTPStatus.NOT_IMPLEMENTED)


def header(handler: Handler, query: dict[str, str]) -> Answer:
    if key := query.get("key"):
        return Answer(handler.headers.get(key, ""))
    return Answer(json.dumps({name.title(): handler.headers.get_all(name) for name in handler.headers}))


def echo(handler: Handler, query: dict[str, str]) -> Answer:
    code = query.get("code") or "200"
    if not code.isdecimal() or not 200 <= int(code) <= 599:
        return Answer(f"argument 'code' must be a status from 200 to 599 or empty, got {code!r}\n")
    return Answer(query.get("msg", ""), int(code))


def redirect(handler: Handler, query: dict[str, str]) -> Answer:
    code = query.get("code") or "302"
    if not code.isdecimal() or not 300 <= int(code) <= 399:
        return Answer(f"argument 'code' must be a status from 300 to 399 or empty, got {code!r}\n")
    location = "".join(each for each in query.get("location", "") if each.isprintable())
    return Answer("", int(code), {"Location": location})


def leave(handler: Handler, query: dict[str, str]) -> Answer:
    code = query.get("code") or "0"
    try:
        wait = seconds(query.get("wait") or "0")
    except argparse.ArgumentTypeError as error:
        return Answer(f"argument 'wait': {error}\n")
    if not code.isdecimal() or int(code) > 127:
        return Answer(f"argument 'code' must be an integer [0-127] or empty, got {code!r}\n")
    time.sleep(wait)
    os._exit(int(code))


def datagram(text: str, client: str) -> str:
    """Answer a datagram, as `netexec` does."""
    word, _, rest = text.partition(" ")
    answers = {"hostname": socket.gethostname(), "echo": rest, "clientip": client}
    return answers.get(word.lower(), f"unknown command: {word}")


def dial(handler: Handler, query: dict[str, str]) -> Answer:
    """Request a path of another server, by HTTP or UDP, and answer what it has answered."""
    host, port, tries = query.get("host", ""), query.get("port", ""), query.get("tries") or "1"
    asked, protocol = query.get("request", ""), (query.get("protocol") or "http").lower()
    if not asked or not port.isdecimal() or not tries.isdecimal() or int(tries) > MOST_TRIES:
        why = f"request and port are required, and tries is at most {MOST_TRIES}\n"
        return Answer(why, HTTPStatus.BAD_REQUEST)
    if protocol not in ("http", "udp"):
        return Answer(f"unsupported protocol. {protocol}\n", HTTPStatus.BAD_REQUEST)
    responses: list[str] = []
    errors: list[str] = []
    for _ in range(int(tries)):
        try:
            responses.append((ask_http if protocol == "http" else ask_udp)(host, int(port), asked))
        except OSError as error:
            errors.append(str(error))
    return Answer(json.dumps({"responses": responses} | ({"errors": errors} if errors else {})))


def ask_http(host: str, port: int, path: str) -> str:
    connection = HTTPConnection(host, port, timeout=DIAL_SECONDS)
    try:
        connection.request("GET", f"/{path}")
        return connection.getresponse().read(1 << 20).decode(errors="replace")
    finally:
        connection.close()


def ask_udp(host: str, port: int, text: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(DIAL_SECONDS)
        asking.connect((host, port))
        asking.send(text.encode())
        return asking.recv(DATAGRAM).decode(errors="replace").strip()


def serve_hostname(options: argparse.Namespace) -> int:
    name = socket.gethostname()
    raw = options.tcp or options.udp
    if options.http and raw and "--http" in sys.argv:
        sys.exit("serve-hostname: --http excludes --tcp and --udp; remove one of them")
    if options.tcp:
        serve_tcp(lambda text, client: name, options.port)
    if options.udp:
        serve_udp(lambda text, client: name, options.port)
    if not raw:
        closing = {"Connection": "close"} if options.close else {}
        serve_http({"/": lambda handler, query: Answer(name, headers=closing)}, options.port)
    return wait_for_signal()


class Files(SimpleHTTPRequestHandler):
    """Serves every file in the root folder of the container. Nothing is cached: a changed file is visible at once."""

    server_version = "agnhost-stand-in"
    sys_version = ""

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "private, no-store")
        self.send_header("Access-Control-Allow-Origin", "*")
        super().end_headers()


def test_webserver(options: argparse.Namespace) -> int:
    begin(WebServer((HOST, port_of(options.port)), partial(Files, directory=os.getcwd())), "files", options.port)
    return wait_for_signal()


def liveness(_: argparse.Namespace) -> int:
    started = time.monotonic()

    def healthz(handler: Handler, query: dict[str, str]) -> Answer:
        age = time.monotonic() - started
        return Answer("ok") if age <= ALIVE_SECONDS else Answer(f"error: {age}", HTTPStatus.INTERNAL_SERVER_ERROR)

    def since(handler: Handler, query: dict[str, str]) -> Answer:
        return Answer(f"{time.monotonic() - started:.3f}s")

    def moved(handler: Handler, query: dict[str, str]) -> Answer:
        return redirect(handler, {"location": query.get("loc", "")})

    absent = Answer("404 page not found\n", HTTPStatus.NOT_FOUND)
    routes: dict[str, Route] = {"/healthz": healthz, "/started": since, "/redirect": moved}
    serve_http({**routes, "/": lambda handler, query: absent}, 8080)
    return wait_for_signal()


def porter(options: argparse.Namespace) -> int:
    """Serve the text of each variable `SERVE_PORT_<number>`, and of `SERVE_UDP_PORT_<number>`."""
    found = re.compile(r"SERVE_(TCP_|UDP_|TLS_|SCTP_)?PORT_(\d+)")
    for name, text in os.environ.items():
        match = found.fullmatch(name)
        if match is None:
            continue
        if match[1] in ("TLS_", "SCTP_"):
            sys.exit(f"the stand-in for agnhost serves no {match[1].rstrip('_')}: remove {name}, or use the image")
        if match[1] == "UDP_":
            serve_udp(partial(fixed, text), int(match[2]))
        else:
            serve_http({"/": partial(shown, text, options.json_response)}, int(match[2]))
    return wait_for_signal()


def fixed(text: str, asked: str, client: str) -> str:
    return text


def shown(text: str, as_json: bool, handler: Handler, query: dict[str, str]) -> Answer:
    if not as_json:
        return Answer(text)
    content = json.dumps({"Method": handler.command, "Body": text})
    return Answer(content, headers={"Content-Type": "application/json"})


# ---- programs that end -------------------------------------------------------------------------------------------


def logs_generator(options: argparse.Namespace) -> int:
    if options.log_lines_total <= 0 or options.run_duration <= 0:
        sys.exit("logs-generator: --log-lines-total and --run-duration must be greater than zero")
    methods, namespaces = ("GET", "PUT", "POST", "DELETE"), ("kube-system", "default", "ns")
    for number in range(options.log_lines_total):
        pod = "".join(random.choices("bcdfghjklmnpqrstvwxz2456789", k=random.randint(3, 5)))
        path = f"/api/v1/namespaces/{random.choice(namespaces)}/pods/{pod}"
        sys.stdout.write(f"{number} {random.choice(methods)} {path} {random.randint(200, 599)}\n")
        sys.stdout.flush()
        time.sleep(options.run_duration / options.log_lines_total)
    return 0


def connect(options: argparse.Namespace) -> int:
    """Connect to a server, and say in one word why that fails."""
    host, _, port = options.address.rpartition(":")
    if not host or not port.isdecimal():
        sys.exit(f"UNKNOWN: {options.address!r} is not host:port")
    try:
        family, kind, _, _, address = socket.getaddrinfo(host.strip("[]"), int(port), type=KINDS[options.protocol])[0]
    except (OSError, OverflowError) as error:
        sys.exit(f"DNS: {error}")
    with socket.socket(family, kind) as connecting:
        connecting.settimeout(options.timeout or None)
        try:
            connecting.connect(address)
            if options.protocol == "udp":
                connecting.send(f"{options.udp_data}\n".encode())
                connecting.recv(DATAGRAM)
        except TimeoutError:
            sys.exit("TIMEOUT")
        except ConnectionRefusedError:
            sys.exit("REFUSED")
        except OSError as error:
            sys.exit(f"OTHER: {error}")
    return 0


KINDS = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}


def resolver_words(first: str) -> list[str]:
    """Return the words of the lines of /etc/resolv.conf that begin with `first`."""
    lines = [line.split() for line in Path("/etc/resolv.conf").read_text().splitlines()]
    return [word for words in lines if words[:1] == [first] for word in words[1:]]


def dns_suffix(_: argparse.Namespace) -> int:
    sys.stdout.write(",".join(resolver_words("search")) + "\n")
    return 0


def dns_server_list(_: argparse.Namespace) -> int:
    sys.stdout.write(",".join(resolver_words("nameserver")) + "\n")
    return 0


def etc_hosts(_: argparse.Namespace) -> int:
    sys.stdout.write(Path("/etc/hosts").read_text() + "\n")
    return 0


# ---- the command line --------------------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(prog="agnhost", description="A stand-in for Kubernetes' test image agnhost.")
    commands = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(run.__name__.replace("_", "-"), help=text, allow_abbrev=False)
        made.set_defaults(run=run)
        return made

    add(pause, "wait until the Pod ends")
    served = add(netexec, "serve /hostname, /echo, /clientip and others, over HTTP and UDP")
    served.add_argument("--http-port", type=int, default=8080)
    served.add_argument("--udp-port", type=int, default=8081)
    served.add_argument("--delay-shutdown", type=float, default=0)
    named = add(serve_hostname, "serve the host name, over HTTP, TCP or UDP")
    for protocol in ("http", "tcp", "udp", "close"):
        named.add_argument(f"--{protocol}", type=is_true, nargs="?", const=True, default=protocol == "http")
    named.add_argument("--port", type=int, default=9376)
    add(test_webserver, "serve the files of the container").add_argument("--port", type=int, default=80)
    add(liveness, "be healthy for 10 seconds")
    add(porter, "serve the texts in SERVE_PORT_<number>").add_argument("--json-response", action="store_true")
    lines = add(logs_generator, "write lines to the log")
    lines.add_argument("-t", "--log-lines-total", type=int, default=0)
    lines.add_argument("-d", "--run-duration", type=seconds, default=0)
    connecting = add(connect, "connect to a server")
    connecting.add_argument("address")
    connecting.add_argument("--timeout", type=seconds, default=0)
    connecting.add_argument("--protocol", choices=KINDS, default="tcp")
    connecting.add_argument("--udp-data", default="hostname")
    add(dns_suffix, "print the search domains")
    add(dns_server_list, "print the name servers")
    add(etc_hosts, "print /etc/hosts")
    commands.add_parser("entrypoint-tester", help="print the arguments")
    return whole


def is_true(text: str) -> bool:
    if text not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return text == "true"


def main(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["entrypoint-tester"]:
        sys.stdout.write(f"[/agnhost {' '.join(arguments)}]\n")
        return 0
    options = parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = options.run
    return run(options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
