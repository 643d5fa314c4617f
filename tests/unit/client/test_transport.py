"""Features of a transport beyond HTTP: credentials, impersonation, and the retries that Kubernetes requests."""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from kubewright.client._config import Config, ExecPlugin, Impersonation
from kubewright.client._transport import HandlerTransport, HTTPTransport
from kubewright.http.message import Handler, Peer, Pipe, Request, Response
from kubewright.http.server import Server
from kubewright.machinery import time
from kubewright.machinery.errors import ConfigError, ConnectionFailed, DeadlineExceeded
from kubewright.testing import VirtualClock

from .answers import Answers, SkippingClock

GET = Request("GET", "/api/v1/pods?limit=5", {"accept": "application/json"})
BUSY = Response(429, {"retry-after": "1"}, b"slow down")


@pytest.fixture(scope="session")
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
async def serve(ca: trustme.CA) -> AsyncIterator[Callable[[Handler], Awaitable[Config]]]:
    """Serve a handler over TLS. Returns a Config for it without credentials."""
    servers: list[Server] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1", "kubernetes").configure_cert(context)
    ca.configure_trust(context)
    context.verify_mode = ssl.CERT_OPTIONAL

    async def start(handler: Handler) -> Config:
        server = Server(handler, ssl=context)
        await server.start()
        servers.append(server)
        return Config(server=f"https://127.0.0.1:{server.port}", ca=ca.cert_pem.bytes())

    yield start
    for server in servers:
        await server.close()


class TestCredentials:
    async def test_each_request_has_the_token_and_the_path_of_the_server(
        self, serve: Callable[[Handler], Awaitable[Config]]
    ) -> None:
        server = Answers()
        config = await serve(server)
        transport = HTTPTransport(replace(config, server=config.server + "/clusters/one/", token="abc"))
        await transport.send(GET)
        assert server.requests[0].target == "/clusters/one/api/v1/pods?limit=5"
        assert server.requests[0].headers["authorization"] == "Bearer abc"
        assert server.requests[0].headers["accept"] == "application/json"
        assert "authorization" not in GET.headers
        await transport.close()

    async def test_user_name_and_password_are_sent_as_basic_authentication(
        self, serve: Callable[[Handler], Awaitable[Config]]
    ) -> None:
        server = Answers()
        transport = HTTPTransport(replace(await serve(server), username="me", password="ü:x"))
        await transport.send(GET)
        assert server.requests[0].headers["authorization"] == "Basic bWU6w7w6eA=="
        await transport.close()

    @pytest.mark.parametrize("as_files", [False, True])
    async def test_a_client_certificate_is_used(
        self, serve: Callable[[Handler], Awaitable[Config]], ca: trustme.CA, tmp_path: Path, as_files: bool
    ) -> None:
        server = Answers()
        leaf = ca.issue_cert("x", common_name="alice")
        cert, key = b"".join(each.bytes() for each in leaf.cert_chain_pems), leaf.private_key_pem.bytes()
        config = replace(await serve(server), client_cert=cert, client_key=key)
        if as_files:
            (tmp_path / "tls.crt").write_bytes(cert)
            (tmp_path / "tls.key").write_bytes(key)
            (tmp_path / "ca.crt").write_bytes(ca.cert_pem.bytes())
            config = replace(
                config, ca=tmp_path / "ca.crt", client_cert=tmp_path / "tls.crt", client_key=tmp_path / "tls.key"
            )
        transport = HTTPTransport(config)
        await transport.send(GET)
        peer = server.requests[0].peer
        assert peer is not None
        assert peer.common_name == "alice"
        await transport.close()

    async def test_a_token_file_is_read_again_every_minute_and_after_401(
        self, serve: Callable[[Handler], Awaitable[Config]], tmp_path: Path
    ) -> None:
        good = "one"

        async def handler(request: Request) -> Response:
            return Response(200 if request.headers["authorization"] == f"Bearer {good}" else 401)

        file, clock = tmp_path / "token", VirtualClock()
        file.write_text("one\n")
        transport = HTTPTransport(replace(await serve(handler), token_file=file), clock=clock)
        assert (await transport.send(GET)).status == 200
        file.write_text("two\n")
        assert (await transport.send(GET)).status == 200, "the first token is still used"
        await clock.advance(61)
        good = "two"
        assert (await transport.send(GET)).status == 200, "the second token was read"
        file.write_text("three\n")
        good = "three"
        assert (await transport.send(GET)).status == 200, "the second token was rejected within its minute"
        good = "four"
        assert (await transport.send(GET)).status == 401, "there is no fourth token yet"
        await transport.close()

    async def test_while_a_token_file_cannot_be_read_the_last_token_is_used(
        self, serve: Callable[[Handler], Awaitable[Config]], tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        server = Answers()
        file, clock = tmp_path / "token", VirtualClock()
        file.write_text("one")
        transport = HTTPTransport(replace(await serve(server), token_file=file), clock=clock)
        await transport.send(GET)
        file.unlink()
        await clock.advance(61)
        await transport.send(GET)
        assert server.requests[1].headers["authorization"] == "Bearer one"
        assert f'file={file} error="No such file or directory"' in caplog.text
        await transport.close()

    async def test_a_token_file_that_never_existed_is_an_error(self, tmp_path: Path) -> None:
        transport = HTTPTransport(Config("http://127.0.0.1:1", token_file=tmp_path / "gone"))
        with pytest.raises(ConfigError, match=r"token file .*/gone: No such file"):
            await transport.send(GET)

    async def test_impersonation_sends_a_header_for_each_group(
        self, serve: Callable[[Handler], Awaitable[Config]]
    ) -> None:
        server = Answers()
        whom = Impersonation("alice", groups=("dev", "ops"), uid="7", extra={"Reason/why": ("a", "b")})
        transport = HTTPTransport(replace(await serve(server), impersonate=whom))
        await transport.send(GET)
        headers = server.requests[0].headers
        assert headers["impersonate-user"] == "alice"
        assert headers["impersonate-group"] == "dev, ops", "a server that joins header lines reads one group"
        assert headers["impersonate-uid"] == "7"
        assert headers["impersonate-extra-reason%2fwhy".replace("%2f", "%2F").lower()] == "a, b"
        await transport.close()


@pytest.fixture
def plugin(tmp_path: Path) -> Callable[..., ExecPlugin]:
    """Exec plugin that prints a given output and counts its runs."""

    def make(output: str, *, fails: int = 0) -> ExecPlugin:
        (tmp_path / "output").write_text(output)
        script = tmp_path / "plugin.py"
        script.write_text(
            "import os, pathlib, sys\n"
            f"folder = pathlib.Path({str(tmp_path)!r})\n"
            "with open(folder / 'runs', 'a') as runs: runs.write(os.environ['KUBERNETES_EXEC_INFO'] + os.linesep)\n"
            "print((folder / 'output').read_text())\n"
            f"print('no such user', file=sys.stderr) if {fails} else None\n"
            f"sys.exit({fails})\n"
        )
        return ExecPlugin(sys.executable, (str(script),), interactive_mode="Never", cluster={"server": "https://x"})

    return make


def printed(api_version: str = "client.authentication.k8s.io/v1", **status: str) -> str:
    fields = ", ".join(f'"{key}": {_json(value)}' for key, value in status.items())
    return f'{{"apiVersion": "{api_version}", "kind": "ExecCredential", "status": {{{fields}}}}}'


def _json(text: str) -> str:
    return '"' + text.replace("\n", "\\n") + '"'


class TestExecPlugins:
    async def test_an_exec_plugin_runs_once_until_its_credential_expires(
        self, serve: Callable[[Handler], Awaitable[Config]], plugin: Callable[..., ExecPlugin], tmp_path: Path
    ) -> None:
        clock = VirtualClock(datetime(2026, 1, 1, tzinfo=UTC))
        expires = time.format(clock.now() + timedelta(minutes=10))
        server = Answers()
        login = plugin(printed(token="one", expirationTimestamp=expires))
        transport = HTTPTransport(replace(await serve(server), exec=login), clock=clock)
        await asyncio.gather(*(transport.send(GET) for _ in range(5)))
        plugin(printed(token="two"))
        await clock.advance(timedelta(minutes=11))
        await transport.send(GET)
        sent = [request.headers["authorization"] for request in server.requests]
        assert sent == ["Bearer one"] * 5 + ["Bearer two"]
        first, _ = (tmp_path / "runs").read_text().split("\n", 1)
        assert '"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential"' in first
        assert '"interactive":false' in first
        assert '"server":"https://x"' in first
        assert (tmp_path / "runs").read_text().count("\n") == 2
        await transport.close()

    async def test_an_exec_plugin_runs_again_after_401_at_most_once_per_request(
        self, serve: Callable[[Handler], Awaitable[Config]], plugin: Callable[..., ExecPlugin], tmp_path: Path
    ) -> None:
        async def handler(request: Request) -> Response:
            return Response(200 if request.headers["authorization"] == "Bearer new" else 401)

        transport = HTTPTransport(replace(await serve(handler), exec=plugin(printed(token="old"))))
        assert (await transport.send(GET)).status == 401
        plugin(printed(token="new"))
        assert (await transport.send(GET)).status == 200
        assert (tmp_path / "runs").read_text().count("\n") == 3
        await transport.close()

    async def test_an_exec_plugin_can_provide_a_client_certificate(
        self, serve: Callable[[Handler], Awaitable[Config]], plugin: Callable[..., ExecPlugin], ca: trustme.CA
    ) -> None:
        def login(name: str, expires: datetime) -> ExecPlugin:
            leaf = ca.issue_cert("x", common_name=name)
            return plugin(
                printed(
                    clientCertificateData=leaf.cert_chain_pems[0].bytes().decode(),
                    clientKeyData=leaf.private_key_pem.bytes().decode(),
                    expirationTimestamp=time.format(expires),
                )
            )

        clock = VirtualClock()
        server = Answers()
        config = replace(await serve(server), exec=login("alice", clock.now() + timedelta(minutes=1)))
        transport = HTTPTransport(config, clock=clock)
        await transport.send(GET)
        login("bob", clock.now() + timedelta(hours=1))
        await clock.advance(timedelta(minutes=2))
        await transport.send(GET)
        assert [each.peer and each.peer.common_name for each in server.requests] == ["alice", "bob"]
        await transport.close()

    @pytest.mark.parametrize(
        ("output", "fails", "message"),
        [
            ("", 1, "failed with exit code 1: no such user"),
            ("hello", 0, "printed no ExecCredential"),
            (printed("client.authentication.k8s.io/v1beta1", token="x"), 0, "answered in .*v1beta1.* requests .*v1'"),
            (printed(), 0, "printed neither a token nor a client certificate"),
            (printed(clientCertificateData="x"), 0, "printed a client certificate without its key"),
        ],
    )
    async def test_the_error_of_a_failed_exec_plugin_has_its_output(
        self, plugin: Callable[..., ExecPlugin], output: str, fails: int, message: str
    ) -> None:
        transport = HTTPTransport(Config("http://127.0.0.1:1", exec=plugin(output, fails=fails)))
        with pytest.raises(ConfigError, match=rf"exec plugin '{sys.executable}' of the kubeconfig {message}"):
            await transport.send(GET)

    async def test_a_failed_exec_plugin_does_not_run_again_for_each_request(
        self, serve: Callable[[Handler], Awaitable[Config]], plugin: Callable[..., ExecPlugin], tmp_path: Path
    ) -> None:
        clock = VirtualClock()
        transport = HTTPTransport(replace(await serve(Answers()), exec=plugin("", fails=1)), clock=clock)
        for _ in range(3):
            with pytest.raises(ConfigError, match="no such user"):
                await transport.send(GET)
        assert (tmp_path / "runs").read_text().count("\n") == 1
        plugin(printed(token="good"))
        await clock.advance(6)
        assert (await transport.send(GET)).status == 200
        await transport.close()

    async def test_the_error_of_a_missing_exec_plugin_has_its_install_hint(self) -> None:
        login = ExecPlugin("no-such-program", install_hint="Get it from example.com.")
        transport = HTTPTransport(Config("http://127.0.0.1:1", exec=login))
        with pytest.raises(
            ConfigError, match=r"'no-such-program' .* No such file or directory. Get it from example.com"
        ):
            await transport.send(GET)

    async def test_an_interactive_exec_plugin_gets_the_terminal(
        self, serve: Callable[[Handler], Awaitable[Config]], tmp_path: Path
    ) -> None:
        server = Answers()
        config = await serve(server)
        plugin, program, ca = tmp_path / "plugin.py", tmp_path / "program.py", tmp_path / "ca.crt"
        ca.write_bytes(config.ca)  # type: ignore[arg-type]
        answer = '{"apiVersion": "client.authentication.k8s.io/v1", "status": {"token": "%s"}}'
        plugin.write_text(
            "import os, sys\n"
            "assert '\"interactive\":true' in os.environ['KUBERNETES_EXEC_INFO']\n"
            "print('Your token?', file=sys.stderr)\n"
            f"print('{answer}' % input())\n"
        )
        program.write_text(
            "import asyncio, pathlib, sys\n"
            "from kubewright.client._config import Config, ExecPlugin\n"
            "from kubewright.client._transport import HTTPTransport\n"
            "from kubewright.http.message import Request\n"
            f"plugin = ExecPlugin(sys.executable, ({str(plugin)!r},), interactive_mode='Always')\n"
            f"config = Config({config.server!r}, ca=pathlib.Path({str(ca)!r}), exec=plugin)\n"
            "print(asyncio.run(HTTPTransport(config).send(Request('GET', '/'))).status)\n"
        )
        user, terminal = os.openpty()
        process = await asyncio.create_subprocess_exec(
            sys.executable, program, stdin=terminal, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        os.write(user, b"typed\n")
        printed, asked = await process.communicate()
        os.close(user)
        os.close(terminal)
        assert (printed, asked) == (b"200\n", b"Your token?\n")
        assert server.requests[0].headers["authorization"] == "Bearer typed"

    async def test_an_interactive_exec_plugin_without_a_terminal_fails_at_once(self) -> None:
        login = ExecPlugin(sys.executable, interactive_mode="Always")
        transport = HTTPTransport(Config("http://127.0.0.1:1", exec=login))
        with pytest.raises(ConfigError, match=r"wants a terminal \(interactiveMode: Always\)"):
            await transport.send(GET)


class TestConnections:
    async def test_a_failed_connection_is_tried_again_for_reads_with_growing_pauses(
        self, refusing_address: str
    ) -> None:
        codes: list[tuple[str, str, str]] = []
        clock = SkippingClock()
        config = Config(f"http://{refusing_address}")
        transport = HTTPTransport(config, clock=clock, observer=lambda *each: codes.append(each))
        with pytest.raises(ConnectionFailed, match=f"cannot connect to {refusing_address}: Connection refused"):
            await transport.send(GET)
        assert codes == [("<error>", "GET", refusing_address)] * 4
        assert clock.slept[2] > clock.slept[0]
        codes.clear()
        with pytest.raises(ConnectionFailed):
            await transport.send(Request("POST", "/"))
        assert len(codes) == 1

    async def test_the_observer_is_called_for_every_attempt(
        self, serve: Callable[[Handler], Awaitable[Config]]
    ) -> None:
        seen: list[tuple[str, str, str]] = []
        config = await serve(Answers(BUSY, Response(200)))
        transport = HTTPTransport(config, clock=SkippingClock(), observer=lambda *each: seen.append(each))
        await transport.send(GET)
        host = config.server.removeprefix("https://")
        assert seen == [("429", "GET", host), ("200", "GET", host)]
        await transport.close()


def issue(ca: trustme.CA, name: str, cert: Path, key: Path) -> None:
    """Write a new certificate for `name`."""
    leaf = ca.issue_cert("x", common_name=name)
    cert.write_bytes(b"".join(each.bytes() for each in leaf.cert_chain_pems))
    leaf.private_key_pem.write_to_path(str(key))


class TestTLSMaterial:
    def test_the_error_names_an_unusable_credential(self, tmp_path: Path, ca: trustme.CA) -> None:
        leaf, other = ca.issue_cert("x"), ca.issue_cert("y")
        cert, key = leaf.cert_chain_pems[0].bytes(), leaf.private_key_pem.bytes()
        wrong = {
            r"CA .*/gone: No such file": {"ca": tmp_path / "gone"},
            r"CA given as data cannot be used: .*; give certificates in PEM": {"ca": b"rubbish"},
            r"client certificate .*/gone with key given as data": {"client_cert": tmp_path / "gone", "client_key": key},
            r"cannot be used: key values mismatch; give a matching pair": {
                "client_cert": cert,
                "client_key": other.private_key_pem.bytes(),
            },
            r"client_cert and client_key come together": {"client_cert": cert},
        }
        for message, fields in wrong.items():
            with pytest.raises(ConfigError, match=message):
                HTTPTransport(Config("https://127.0.0.1:1", **fields))  # type: ignore[arg-type]

    async def test_a_renewed_ca_file_is_trusted(
        self, serve: Callable[[Handler], Awaitable[Config]], ca: trustme.CA, tmp_path: Path
    ) -> None:
        file = tmp_path / "ca.crt"
        trustme.CA().cert_pem.write_to_path(str(file))
        transport = HTTPTransport(replace(await serve(Answers()), ca=file), clock=SkippingClock())
        with pytest.raises(ConnectionFailed, match="not trusted"):
            await transport.send(GET)
        ca.cert_pem.write_to_path(str(file))
        assert (await transport.send(GET)).status == 200
        await transport.close()

    async def test_renewed_client_certificate_files_are_used_when_the_old_one_is_rejected(
        self, serve: Callable[[Handler], Awaitable[Config]], ca: trustme.CA, tmp_path: Path
    ) -> None:
        accepted = "alice"

        async def handler(request: Request) -> Response:
            await asyncio.sleep(0.01)
            return Response(200 if request.peer and request.peer.common_name == accepted else 401)

        cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
        issue(ca, "alice", cert, key)
        transport = HTTPTransport(replace(await serve(handler), client_cert=cert, client_key=key))

        async def codes() -> list[int]:
            return [each.status for each in await asyncio.gather(*(transport.send(GET) for _ in range(5)))]

        assert await codes() == [200] * 5
        issue(ca, "bob", cert, key)
        assert await codes() == [200] * 5, "existing connections still use the old certificate"
        accepted = "bob"
        assert await codes() == [200] * 5
        accepted = "carol"
        assert await codes() == [401] * 5, "there is no third certificate yet"
        await transport.close()

    async def test_files_that_do_not_match_leave_the_previous_files_in_use(
        self, serve: Callable[[Handler], Awaitable[Config]], ca: trustme.CA, tmp_path: Path
    ) -> None:
        server = Answers(*(Response(200, {}, Pipe()) for _ in range(3)))
        cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
        issue(ca, "alice", cert, key)
        transport = HTTPTransport(replace(await serve(server), client_cert=cert, client_key=key))
        await transport.send(GET, stream=True)  # each stream has its own connection
        issue(ca, "bob", cert, tmp_path / "not there yet")
        await transport.send(GET, stream=True)
        issue(ca, "bob", cert, key)
        await transport.send(GET, stream=True)
        assert [each.peer and each.peer.common_name for each in server.requests] == ["alice", "alice", "bob"]
        await transport.close()

    async def test_an_insecure_client_trusts_any_server(self, serve: Callable[[Handler], Awaitable[Config]]) -> None:
        transport = HTTPTransport(replace(await serve(Answers()), ca=None, insecure_skip_tls_verify=True))
        assert (await transport.send(GET)).status == 200
        await transport.close()

    async def test_the_tls_server_name_can_be_overridden(self, serve: Callable[[Handler], Awaitable[Config]]) -> None:
        config = await serve(Answers())
        for name, trusted in (("kubernetes", True), ("other", False)):
            transport = HTTPTransport(replace(config, tls_server_name=name), clock=SkippingClock())
            if trusted:
                assert (await transport.send(GET)).status == 200
            else:
                with pytest.raises(ConnectionFailed, match="Hostname mismatch"):
                    await transport.send(GET)
            await transport.close()


class TestInProcess:
    async def test_the_handler_receives_the_request_and_its_user(self) -> None:
        server = Answers()
        transport = HandlerTransport(server, peer=Peer(common_name="alice"))
        assert (await transport.send(GET)).body == b"ok"
        (request,) = server.requests
        assert (request.method, request.target, request.headers) == (GET.method, GET.target, GET.headers)
        assert request.peer == Peer(common_name="alice")

    async def test_a_body_is_read_to_its_end_unless_a_stream_is_requested(self) -> None:
        def stream() -> Response:
            pipe = Pipe()
            pipe.write(b"all")
            pipe.close()
            return Response(200, {}, pipe)

        transport = HandlerTransport(Answers(stream(), stream()))
        assert (await transport.send(GET)).body == b"all"
        assert not isinstance((await transport.send(GET, stream=True)).body, bytes)

    async def test_timeouts_apply_as_over_a_socket(self) -> None:
        async def slow(request: Request) -> Response:
            await asyncio.sleep(60)
            return Response(200)

        with pytest.raises(DeadlineExceeded, match=r"GET /api/v1/pods: no answer within 0.02 s"):
            await HandlerTransport(slow).send(GET, timeout=0.02)

        abandoned = asyncio.Event()
        silent = Pipe(on_abandon=abandoned.set)
        silent.write(b"first")
        response = await HandlerTransport(Answers(Response(200, {}, silent))).send(GET, timeout=0.02, stream=True)
        assert not isinstance(response.body, bytes)
        assert await anext(response.body) == b"first"
        with pytest.raises(DeadlineExceeded, match=r"silent for 0.02 s"):
            await anext(response.body)
        assert abandoned.is_set()

    @pytest.mark.parametrize("timeout", [None, 60.0])
    @pytest.mark.parametrize("begun", [False, True])
    async def test_closing_a_stream_notifies_its_writer(self, timeout: float | None, begun: bool) -> None:
        abandoned = asyncio.Event()
        pipe = Pipe(on_abandon=abandoned.set)
        pipe.write(b"first")
        transport = HandlerTransport(Answers(Response(200, {}, pipe)))
        response = await transport.send(GET, timeout=timeout, stream=True)
        if begun:
            assert not isinstance(response.body, bytes)
            await anext(response.body)
        await response.aclose()
        assert abandoned.is_set()
