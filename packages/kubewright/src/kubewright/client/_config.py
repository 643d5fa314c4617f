"""Address of the API server and credentials, from a kubeconfig or from the Pod that this process runs in.

A `Config` is a complete, validated value. It does not depend on the kubeconfig after loading, but it may name files
that are replaced at run time (certificates, tokens). An invalid configuration raises a ConfigError that names the file,
the field and the remedy.

Kubeconfig files are merged as by kubectl: the first file that defines a cluster, user, context or current context wins.
Relative paths start at the folder of the file that contains them. Credentials that were removed from Kubernetes
(auth-provider) are rejected.

Sources: https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/,
https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/ and
https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/; `load` searches in the order of
controller-runtime.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast, get_args
from urllib.parse import urlsplit

import msgspec

from kubewright.machinery.errors import ConfigError
from kubewright.machinery.json import JSONObject

SANDBOX: Final = "CONTAINER_SANDBOX_MOUNT_POINT"
"""Environment variable with the folder of a HostProcess container's mounts:
https://kubernetes.io/docs/tasks/configure-pod-container/create-hostprocess-pod/#volume-mounts."""


def service_account_folder() -> Path:
    """Return the folder in which a Pod finds its token, the cluster's CA and its namespace."""
    return Path(os.environ.get(SANDBOX) or "/", "var/run/secrets/kubernetes.io/serviceaccount")


def mounted(path: str) -> Path:
    """Return where this process finds a mount of its container: in a HostProcess container, it is below a folder."""
    found = Path(os.environ.get(SANDBOX) or "/", path.lstrip("/"))
    return found if Path(path).is_absolute() and found.exists() else Path(path)


InteractiveMode: TypeAlias = Literal["Never", "IfAvailable", "Always"]
"""`IfAvailable`: if standard input is a terminal. `Always`: an error if standard input is not a terminal."""


class ExecPlugin(msgspec.Struct, frozen=True):
    """A program that prints credentials: `users[].user.exec` of a kubeconfig."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    """Variables that are added to the environment of this process."""
    api_version: str = "client.authentication.k8s.io/v1"
    install_hint: str = ""
    """Instructions for installing the program, shown if it is missing."""
    interactive_mode: InteractiveMode = "IfAvailable"
    """Whether the program gets the terminal, to prompt the user."""
    cluster: JSONObject | None = None
    """Data about the cluster that the program receives if `provideClusterInfo` is set."""


class Impersonation(msgspec.Struct, frozen=True):
    """The user that requests are made as: `as`, `as-groups`, `as-uid` and `as-user-extra` of a kubeconfig's user."""

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict[str, tuple[str, ...]])


@dataclass(frozen=True, slots=True)
class Config:
    """Address of an API server, and the credentials to use there. Change one with `dataclasses.replace`.

    Certificates and keys are PEM, as bytes or as the path of a file. If a file is renewed, new connections use its new
    content. The first of `exec`, `token_file`, `token` and `username` that is set is sent. A client certificate can be
    combined with any of them.
    """

    server: str
    """`https://host:port`, followed by a path if the API is served under a path."""
    namespace: str = "default"
    """The default namespace of the context."""
    ca: bytes | Path | None = None
    """The certificate authorities to trust; None: the system's."""
    client_cert: bytes | Path | None = None
    client_key: bytes | Path | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    """File with a bearer token. It is read again every minute, because the kubelet rotates it."""
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    exec: ExecPlugin | None = None
    proxy_url: str | None = None
    """`http://[user:password@]host:port`, `https://` or `socks5://`. None: follow HTTPS_PROXY and NO_PROXY."""
    tls_server_name: str | None = None
    """The name in the server's certificate, if it differs from the host of `server`."""
    insecure_skip_tls_verify: bool = False
    impersonate: Impersonation | None = None
    image_table: Path | None = None
    """For an embedded control plane on this machine: the file that lists the images that run as processes. A
    kubeconfig names it in the cluster's extension `kubewright.dev/embedded`."""

    @classmethod
    def load(cls, *, context: str | None = None) -> Config:
        """Load from `$KUBECONFIG` if it is set, else from the Pod that this process runs in, else from
        `~/.kube/config`.

        If `context` is given, only kubeconfigs are searched.
        """
        if os.environ.get("KUBECONFIG"):
            return cls.from_kubeconfig(context=context)
        if (
            context is None
            and os.environ.get("KUBERNETES_SERVICE_HOST")
            and (service_account_folder() / "token").exists()
        ):
            return cls.in_cluster()
        return cls.from_kubeconfig(context=context)

    @classmethod
    def from_kubeconfig(cls, path: str | Path | None = None, *, context: str | None = None) -> Config:
        """Load a context of a kubeconfig (None: the current context).

        Without a `path`, load the files of `$KUBECONFIG`, merged as by kubectl, or else `~/.kube/config`.
        """
        return _load_kubeconfig(path, context)

    @classmethod
    def in_cluster(cls, service_account: Path | None = None) -> Config:
        """Return the API server and the service account of the Pod that this process runs in.

        `service_account` is the folder with `token`, `ca.crt` and `namespace`, if it differs from the usual folder.
        """
        service_account = service_account or service_account_folder()
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
        if not host or not port:
            raise ConfigError(
                "not in a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set; "
                "outside of a Pod use a kubeconfig"
            )
        token, ca = service_account / "token", service_account / "ca.crt"
        for each in (token, ca):
            if not each.is_file():
                raise ConfigError(f"{each} is missing: does the Pod have automountServiceAccountToken: false?")
        named = service_account / "namespace"
        return cls(
            server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
            namespace=named.read_text().strip() if named.is_file() else "default",
            ca=ca,
            token_file=token,
        )


API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
"""API versions of exec plugins."""
_CLUSTER_INFO = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url", "disable-compression")
_EXEC_EXTENSION = "client.authentication.k8s.io/exec"
_EMBEDDED_EXTENSION = "kubewright.dev/embedded"


class _Section(msgspec.Struct, frozen=True):
    """An entry of a kubeconfig (a cluster, user or context) with its location."""

    file: Path
    field: str
    """`users["admin"].user`"""
    values: JSONObject

    def error(self, key: str, why: str) -> ConfigError:
        return ConfigError(f"kubeconfig {self.file}: {self.field}{key and '.'}{key} {why}")

    def text(self, key: str) -> str | None:
        value = self.values.get(key)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            raise self.error(key, f"is {value!r}, not a string; quote it")
        return value

    def flag(self, key: str) -> bool:
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            raise self.error(key, f"is {value!r}; write true or false")
        return value

    def path(self, key: str) -> Path | None:
        value = self.text(key)
        return None if value is None else self.file.parent / Path(value).expanduser()

    def data(self, key: str) -> bytes | None:
        value = self.text(key)
        if value is None:
            return None
        try:
            return base64.b64decode("".join(value.split()), validate=True)
        except (binascii.Error, ValueError) as error:
            raise self.error(key, f"is not base64 ({error}); encode the PEM file with `base64 -w0`") from None

    def pem(self, name: str) -> bytes | Path | None:
        """Return the decoded `name-data` if it is set, else the path in `name`."""
        data = self.data(f"{name}-data")
        if data is not None:
            return data
        path = self.path(name)
        if path is not None and not path.is_file():
            raise self.error(name, f"names {path}, which does not exist; correct the path, or use {name}-data")
        return path


class _Kubeconfig(msgspec.Struct, frozen=True):
    """Merged files. `origin` names them in messages."""

    origin: str
    sections: dict[str, dict[str, _Section]]
    current_contexts: list[str]
    """The current context of each file; empty if the file names none."""

    def named(self, plural: str, name: str, wanted_by: str) -> _Section:
        found = self.sections[plural].get(name)
        if found is None:
            known = ", ".join(sorted(self.sections[plural])) or "none at all"
            raise ConfigError(f'kubeconfig {self.origin}: {wanted_by} "{name}", but the {plural} in it are: {known}')
        return found


def _load_kubeconfig(path: str | Path | None, context: str | None) -> Config:
    """Return the Config of a context. Without a `path`, read the files of `$KUBECONFIG`, or else `~/.kube/config`."""
    merged = _merge(_files(path))
    name = context or next(filter(None, merged.current_contexts), None)
    if not name:
        known = ", ".join(sorted(merged.sections["contexts"])) or "none"
        raise ConfigError(
            f"kubeconfig {merged.origin}: no current-context; choose one of its contexts ({known}) with "
            "`kubectl config use-context NAME`, or pass context="
        )
    wanted = "asked for context" if context else "current-context is"
    chosen = merged.named("contexts", name, wanted)
    cluster = merged.named("clusters", chosen.text("cluster") or "", f"{chosen.field}.cluster is")
    user_name = chosen.text("user")
    user = (
        merged.named("users", user_name, f"{chosen.field}.user is") if user_name else _Section(chosen.file, "users", {})
    )
    return _config(chosen, cluster, user)


def write_kubeconfig(config: Config, path: Path, *, name: str = "kubewright") -> None:
    """Write `config` as a kubeconfig with one context, `name`. The file holds credentials: only its owner may read it.

    The file is JSON, which every YAML parser reads in the same way. Raises ConfigError for exec plugins and
    impersonation, which this function does not write.
    """
    if config.exec is not None or config.impersonate is not None:
        raise ConfigError("a Config with an exec plugin or impersonation cannot be written as a kubeconfig")
    cluster = {
        "server": config.server,
        **_pem_entry("certificate-authority", config.ca),
        "tls-server-name": config.tls_server_name,
        "insecure-skip-tls-verify": config.insecure_skip_tls_verify or None,
        "proxy-url": config.proxy_url,
        "extensions": [embedded_extension(config.image_table)] if config.image_table is not None else None,
    }
    user = {
        **_pem_entry("client-certificate", config.client_cert),
        **_pem_entry("client-key", config.client_key),
        "token": config.token,
        "tokenFile": str(config.token_file) if config.token_file else None,
        "username": config.username,
        "password": config.password,
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": _without_none(cluster)}],
        "users": [{"name": name, "user": _without_none(user)}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": config.namespace}}],
        "current-context": name,
    }
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")


def embedded_extension(image_table: Path) -> JSONObject:
    """Return the `extensions` entry for an embedded control plane."""
    return {"name": _EMBEDDED_EXTENSION, "extension": {"imageTable": str(image_table.absolute())}}


def _pem_entry(name: str, value: bytes | Path | None) -> dict[str, str | None]:
    if isinstance(value, Path):
        return {name: str(value.resolve())}
    return {f"{name}-data": base64.b64encode(value).decode() if value else None}


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _files(path: str | Path | None) -> list[Path]:
    """Return the existing files to merge."""
    if path is not None:
        explicit = Path(path).expanduser()
        if not explicit.is_file():
            raise ConfigError(f"kubeconfig {explicit}: no such file")
        return [explicit]
    listed = os.environ.get("KUBECONFIG", "")
    candidates = [Path(each).expanduser() for each in listed.split(os.pathsep) if each]
    default = Path("~/.kube/config").expanduser()
    found = [each for each in candidates or [default] if each.is_file()]
    if found:
        return found
    if candidates:
        raise ConfigError(
            f"kubeconfig {listed}: no such file; correct the environment variable KUBECONFIG, or unset it"
        )
    raise ConfigError(
        f"no kubeconfig: KUBECONFIG is not set, this is not a Pod, and there is no {default}; "
        "`export KUBECONFIG=...` (`kubewright up` starts a control plane and prints such a line)"
    )


def _merge(files: list[Path]) -> _Kubeconfig:
    merged = _Kubeconfig(os.pathsep.join(map(str, files)), {"clusters": {}, "users": {}, "contexts": {}}, [])
    for file in files:
        document = _read(file)
        for plural, singular in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
            for section in _sections(file, document, plural, singular):
                merged.sections[plural].setdefault(*section)
        merged.current_contexts.append(_Section(file, "", document).text("current-context") or "")
    return merged


def _read(file: Path) -> JSONObject:
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"kubeconfig {file}: cannot be read: {error.strerror}") from error
    try:
        document = msgspec.json.decode(data)  # as `write_kubeconfig` writes it
    except msgspec.DecodeError:
        document = _from_yaml(file, data)
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"kubeconfig {file}: is not a kubeconfig: the top level is not a mapping")
    return cast("JSONObject", document)


def _from_yaml(file: Path, data: bytes) -> object:
    import yaml  # not in a Pod, whose credentials need no YAML

    try:
        return yaml.load(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise ConfigError(f"kubeconfig {file}: is not YAML: {' '.join(str(error).split())}") from error


def _sections(file: Path, document: JSONObject, plural: str, singular: str) -> Iterator[tuple[str, _Section]]:
    """Yield the named entries of one list of a file. An entry without a body (`user:`) is an empty one."""
    entries: object = document.get(plural) or []
    if not isinstance(entries, list):
        raise ConfigError(f"kubeconfig {file}: {plural} is not a list")
    for index, entry in enumerate(cast("list[object]", entries)):
        fields = cast("JSONObject", entry) if isinstance(entry, dict) else {}
        name: object = fields.get("name")
        values: object = fields.get(singular) or {}
        if not isinstance(name, str) or not isinstance(values, dict):
            raise ConfigError(f"kubeconfig {file}: {plural}[{index}] is not a name with a {singular}")
        yield name, _Section(file, f'{plural}["{name}"].{singular}', cast("JSONObject", values))


def _config(context: _Section, cluster: _Section, user: _Section) -> Config:
    insecure, ca = cluster.flag("insecure-skip-tls-verify"), cluster.pem("certificate-authority")
    if insecure and ca is not None:
        raise cluster.error("insecure-skip-tls-verify", "is true together with a certificate-authority; choose one")
    cert, key = user.pem("client-certificate"), user.pem("client-key")
    if (cert is None) != (key is None):
        raise user.error("", "has only one of client-certificate and client-key; set both")
    if "auth-provider" in user.values:
        raise user.error("auth-provider", "was removed from Kubernetes in 1.26; use an exec plugin instead")
    return Config(
        server=_server(cluster),
        namespace=context.text("namespace") or "default",
        ca=ca,
        client_cert=cert,
        client_key=key,
        token=user.text("token"),
        token_file=user.path("tokenFile"),
        username=user.text("username"),
        password=user.text("password"),
        exec=_exec(user, cluster),
        proxy_url=cluster.text("proxy-url"),
        tls_server_name=cluster.text("tls-server-name"),
        insecure_skip_tls_verify=insecure,
        impersonate=_impersonation(user),
        image_table=_image_table(cluster),
    )


def _server(cluster: _Section) -> str:
    server = cluster.text("server")
    if server is None:
        raise cluster.error("server", "is missing; write https://host:port")
    if urlsplit(server).scheme not in ("https", "http"):
        raise cluster.error("server", f'is "{server}", not a URL; write https://host:port')
    return server


def _image_table(cluster: _Section) -> Path | None:
    told = _extension(cluster, _EMBEDDED_EXTENSION)
    if not isinstance(told, dict):
        return None
    return _Section(cluster.file, f"{cluster.field}.extensions", cast("JSONObject", told)).path("imageTable")


def _extension(cluster: _Section, name: str) -> object:
    """Return the content of the extension `name`; None if it is missing."""
    given: list[JSONObject] = cluster.values.get("extensions") or []
    return next((each.get("extension") for each in given if each.get("name") == name), None)


def _impersonation(user: _Section) -> Impersonation | None:
    name = user.text("as")
    if name is None:
        if user.values.keys() & {"as-groups", "as-uid", "as-user-extra"}:
            raise user.error("as", "is missing, but as-groups, as-uid or as-user-extra is set")
        return None
    extra: dict[str, list[str]] = user.values.get("as-user-extra") or {}
    return Impersonation(
        name,
        groups=tuple(user.values.get("as-groups") or ()),
        uid=user.text("as-uid") or "",
        extra={key: tuple(values) for key, values in extra.items()},
    )


def _exec(user: _Section, cluster: _Section) -> ExecPlugin | None:
    values = user.values.get("exec")
    if values is None:
        return None
    plugin = _Section(user.file, f"{user.field}.exec", values)
    command, version = plugin.text("command"), plugin.text("apiVersion")
    if command is None:
        raise plugin.error("command", "is missing")
    if version not in API_VERSIONS:
        raise plugin.error("apiVersion", f"is {version!r}; supported are {' and '.join(API_VERSIONS)}")
    environment: list[dict[str, str]] = plugin.values.get("env") or []
    return ExecPlugin(
        command=str(user.file.parent / command) if os.sep in command else command,
        args=tuple(plugin.values.get("args") or ()),
        env={each["name"]: each["value"] for each in environment},
        api_version=version,
        interactive_mode=_interactive_mode(plugin),
        install_hint=plugin.text("installHint") or "",
        cluster=_cluster_info(cluster) if plugin.flag("provideClusterInfo") else None,
    )


def _interactive_mode(plugin: _Section) -> InteractiveMode:
    mode = plugin.text("interactiveMode") or "IfAvailable"
    if mode not in get_args(InteractiveMode):
        raise plugin.error("interactiveMode", f"is {mode!r}; write Never, IfAvailable or Always")
    return cast("InteractiveMode", mode)


def _cluster_info(cluster: _Section) -> JSONObject:
    """Return the data about the cluster for an exec plugin (`ExecCredential.spec.cluster`)."""
    told = {key: cluster.values[key] for key in _CLUSTER_INFO if key in cluster.values}
    ca = cluster.pem("certificate-authority")
    if ca is not None:
        told["certificate-authority-data"] = base64.b64encode(ca if isinstance(ca, bytes) else ca.read_bytes()).decode()
    config = _extension(cluster, _EXEC_EXTENSION)
    if config is not None:
        told["config"] = config
    return told
