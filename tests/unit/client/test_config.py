"""Configuration from kubeconfigs and Pods, and the messages for invalid configuration."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubewright.client._config import Config, ExecPlugin, Impersonation
from kubewright.machinery.errors import ConfigError


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use an empty home folder, and no settings in the environment."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def kubeconfig(
    path: Path,
    *,
    cluster: dict[str, Any] | None = None,
    user: dict[str, Any] | None = None,
    context: dict[str, Any] | None = None,
    name: str = "a",
    current: str | None = "a",
) -> Path:
    """Write a kubeconfig with one context. Its cluster and user are also called `name`."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}:6443"} if cluster is None else cluster}],
        "users": [{"name": name, "user": user or {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, **(context or {})}}],
    }
    if current:
        document["current-context"] = current
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document))
    return path


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


class TestKubeconfig:
    def test_every_setting_of_a_kubeconfig_is_read(self, tmp_path: Path) -> None:
        path = kubeconfig(
            tmp_path / "config",
            cluster={
                "server": "https://example.com:6443/prefix",
                "certificate-authority-data": encoded("the ca"),
                "tls-server-name": "kubernetes",
                "proxy-url": "http://proxy:3128",
            },
            user={
                "client-certificate-data": encoded("the cert"),
                "client-key-data": encoded("the key"),
                "token": "the token",
                "username": "me",
                "password": "secret",
                "as": "alice",
                "as-uid": "7",
                "as-groups": ["a", "b"],
                "as-user-extra": {"scope": ["x", "y"]},
            },
            context={"namespace": "team"},
        )
        assert Config.from_kubeconfig(path) == Config(
            server="https://example.com:6443/prefix",
            namespace="team",
            ca=b"the ca",
            client_cert=b"the cert",
            client_key=b"the key",
            token="the token",
            username="me",
            password="secret",
            proxy_url="http://proxy:3128",
            tls_server_name="kubernetes",
            impersonate=Impersonation("alice", groups=("a", "b"), uid="7", extra={"scope": ("x", "y")}),
        )

    def test_secrets_are_not_printed(self, tmp_path: Path) -> None:
        path = kubeconfig(
            tmp_path / "config", user={"token": "the-token", "username": "me", "password": "the-password"}
        )
        assert "the-" not in repr(Config.from_kubeconfig(path))

    def test_relative_paths_start_at_the_folder_of_their_file(self, tmp_path: Path) -> None:
        for name in ("ca.crt", "tls.crt", "tls.key"):
            (tmp_path / "pki" / name).parent.mkdir(exist_ok=True)
            (tmp_path / "pki" / name).write_text("pem")
        path = kubeconfig(
            tmp_path / "conf" / "config",
            cluster={"server": "https://a", "certificate-authority": "../pki/ca.crt"},
            user={
                "client-certificate": str(tmp_path / "pki/tls.crt"),
                "client-key": "../pki/tls.key",
                "tokenFile": "t",
            },
        )
        config = Config.from_kubeconfig(path)
        for found, name in ((config.ca, "ca.crt"), (config.client_cert, "tls.crt"), (config.client_key, "tls.key")):
            assert isinstance(found, Path)
            assert found.resolve() == tmp_path / "pki" / name
        assert config.token_file == tmp_path / "conf" / "t"

    def test_inline_data_takes_precedence_over_files(self, tmp_path: Path) -> None:
        cluster = {"server": "https://a", "certificate-authority-data": encoded("x"), "certificate-authority": "gone"}
        assert Config.from_kubeconfig(kubeconfig(tmp_path / "config", cluster=cluster)).ca == b"x"

    def test_a_context_can_be_chosen(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        paths = [kubeconfig(tmp_path / name, name=name, current=name) for name in ("a", "b")]
        monkeypatch.setenv("KUBECONFIG", ":".join(map(str, paths)))
        assert Config.from_kubeconfig().server == "https://a:6443"
        assert Config.from_kubeconfig(context="b").server == "https://b:6443"
        assert Config.load(context="b").server == "https://b:6443"

    def test_the_first_of_several_files_wins(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        first = kubeconfig(tmp_path / "1", name="x", user={"token": "first"}, current=None)
        second = kubeconfig(tmp_path / "2", name="x", user={"token": "second"}, current="x")
        monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'gone'}:{first}:{second}")
        assert Config.from_kubeconfig().token == "first"

    def test_a_context_without_a_user_is_anonymous(self, tmp_path: Path) -> None:
        path = kubeconfig(tmp_path / "config", context={"user": ""})
        assert Config.from_kubeconfig(path).token is None

    def test_an_exec_plugin_receives_the_cluster_if_it_requests_it(self, tmp_path: Path) -> None:
        extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}
        path = kubeconfig(
            tmp_path / "config",
            cluster={"server": "https://a", "certificate-authority-data": encoded("ca"), "extensions": [extension]},
            user={
                "exec": {
                    "apiVersion": "client.authentication.k8s.io/v1beta1",
                    "command": "./bin/login",
                    "args": ["--now"],
                    "env": [{"name": "REGION", "value": "here"}],
                    "installHint": "pip install login",
                    "interactiveMode": "IfAvailable",
                    "provideClusterInfo": True,
                }
            },
        )
        assert Config.from_kubeconfig(path).exec == ExecPlugin(
            command=str(tmp_path / "bin/login"),
            args=("--now",),
            env={"REGION": "here"},
            api_version="client.authentication.k8s.io/v1beta1",
            install_hint="pip install login",
            cluster={
                "server": "https://a",
                "certificate-authority-data": encoded("ca"),
                "config": {"audience": "x"},
            },
        )


PLUGIN = {"command": "x", "apiVersion": "client.authentication.k8s.io/v1"}

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no server": ({"cluster": {"insecure-skip-tls-verify": True}}, r'clusters\["a"\].cluster.server is missing; write'),
    "a server that is not a URL": ({"cluster": {"server": "a:6443"}}, r'server is "a:6443", not a URL; write https://'),
    "bad base64": ({"user": {"client-key-data": "%%%"}}, r'users\["a"\].user.client-key-data is not base64 .*; encode'),
    "a file that is gone": (
        {"cluster": {"server": "https://a", "certificate-authority": "gone.crt"}},
        r'clusters\["a"\].cluster.certificate-authority names /.*/gone.crt, which does not exist; correct the path',
    ),
    "a certificate without a key": (
        {"user": {"client-certificate-data": encoded("x")}},
        r'users\["a"\].user has only one of client-certificate and client-key; set both',
    ),
    "trust and no trust": (
        {"cluster": {"server": "https://a", "insecure-skip-tls-verify": True, "certificate-authority-data": "eA=="}},
        r"insecure-skip-tls-verify is true together with a certificate-authority; choose one",
    ),
    "a word for a flag": (
        {"cluster": {"server": "https://a", "insecure-skip-tls-verify": "yes please"}},
        r"insecure-skip-tls-verify is 'yes please'; write true or false",
    ),
    "a number for a token": ({"user": {"token": 12345}}, r'users\["a"\].user.token is 12345, not a string; quote it'),
    "an auth provider": (
        {"user": {"auth-provider": {"name": "gcp"}}},
        r"auth-provider was removed .*; use an exec plugin",
    ),
    "groups without a user": ({"user": {"as-groups": ["x"]}}, r"user.as is missing, but as-groups"),
    "a plugin without a command": (
        {"user": {"exec": {"apiVersion": "client.authentication.k8s.io/v1"}}},
        r'users\["a"\].user.exec.command is missing',
    ),
    "a plugin of a version that is gone": (
        {"user": {"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1alpha1"}}},
        r"exec.apiVersion is 'client.authentication.k8s.io/v1alpha1'; supported are client",
    ),
    "a plugin that is interactive in no known way": (
        {
            "user": {
                "exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "always"}
            }
        },
        r"exec.interactiveMode is 'always'; write Never, IfAvailable or Always",
    ),
    "an unknown cluster": (
        {"context": {"cluster": "b"}},
        r'contexts\["a"\].context.cluster is "b", but the clusters in it are: a',
    ),
    "an unknown user": ({"context": {"user": "b"}}, r'contexts\["a"\].context.user is "b", but the users in it are: a'),
    "an unknown context": ({"current": "b"}, r'current-context is "b", but the contexts in it are: a'),
    "no current context": ({"current": None}, r"no current-context; choose one of its contexts \(a\) with `kubectl"),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_error_in_a_kubeconfig_names_file_field_and_remedy(tmp_path: Path, case: str) -> None:
    parts, message = WRONG[case]
    path = kubeconfig(tmp_path / "config", **parts)
    with pytest.raises(ConfigError, match=rf"^kubeconfig {path}: .*{message}"):
        Config.from_kubeconfig(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("clusters: [", "is not YAML"),
        ("just words", "is not a kubeconfig: the top level is not a mapping"),
        ("clusters: 5", "clusters is not a list"),
        ("contexts: [{name: a}, 5]", r"contexts\[1\] is not a name with a context"),
        ("", "no current-context; choose one of its contexts (none)"),
    ],
)
def test_a_file_that_is_not_a_kubeconfig_is_rejected(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        Config.from_kubeconfig(path)
    assert f"kubeconfig {path}: " in str(caught.value)
    assert message.replace("\\", "") in str(caught.value)


class TestWhereItComesFrom:
    def test_an_explicit_file_must_exist(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=rf"kubeconfig {tmp_path}/gone: no such file"):
            Config.from_kubeconfig(tmp_path / "gone")

    def test_one_of_the_files_in_the_environment_must_exist(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "gone"))
        with pytest.raises(ConfigError, match="no such file; correct the environment variable KUBECONFIG, or unset it"):
            Config.load()

    def test_a_missing_configuration_is_reported(self, home: Path) -> None:
        with pytest.raises(ConfigError, match=rf"no kubeconfig: KUBECONFIG is not set, .* no {home}/.kube/config"):
            Config.load()

    def test_the_kubeconfig_of_the_home_folder_is_found(self, home: Path) -> None:
        kubeconfig(home / ".kube" / "config")
        assert Config.load().server == "https://a:6443"

    def test_in_a_pod_the_service_account_is_used(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, text in (("token", "t"), ("ca.crt", "pem"), ("namespace", "mine\n")):
            (tmp_path / name).write_text(text)
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
        assert Config.in_cluster(tmp_path) == Config(
            server="https://[fd00::1]:443", namespace="mine", ca=tmp_path / "ca.crt", token_file=tmp_path / "token"
        )

    def test_outside_of_a_pod_in_cluster_configuration_is_an_error(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with pytest.raises(ConfigError, match="not in a cluster: KUBERNETES_SERVICE_HOST"):
            Config.in_cluster(tmp_path)
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
        with pytest.raises(ConfigError, match="token is missing: does the Pod have automountServiceAccountToken"):
            Config.in_cluster(tmp_path)
