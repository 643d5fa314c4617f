"""The settings of an API server, from the flags of kube-apiserver.

Every flag of the real program is in one of four groups: honored; without effect on clients (logs, timeouts, caches,
the connection to etcd); warned about; and all others, which are refused unless they have their default value.
"""

from __future__ import annotations

import csv
import ipaddress
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from kubewright.machinery.errors import ConfigError
from kubewright.machinery.gvk import GroupVersion
from kubewright.machinery.time import parse_duration
from kubewright_controlplane.apiserver import catalog
from kubewright_controlplane.apiserver.admission import names
from kubewright_controlplane.apiserver.options import ServerOptions
from kubewright_controlplane.apiserver.user import UserInfo
from kubewright_controlplane.envtest.flags import FALSE, TRUE, Flags, port_range

_HONORED: Final = frozenset(
    (
        "advertise-address",
        "allow-privileged",
        "anonymous-auth",
        "api-audiences",
        "authorization-mode",
        "bind-address",
        "cert-dir",
        "client-ca-file",
        "disable-admission-plugins",
        "enable-admission-plugins",
        "etcd-compaction-interval",
        "etcd-prefix",
        "etcd-servers",
        "event-ttl",
        "feature-gates",
        "runtime-config",
        "secure-port",
        "service-account-issuer",
        "service-account-key-file",
        "service-account-signing-key-file",
        "service-cluster-ip-range",
        "service-node-port-range",
        "tls-cert-file",
        "tls-min-version",
        "tls-private-key-file",
        "token-auth-file",
        "version",
    )
)
_WITHOUT_EFFECT: Final = (
    "aggregator-reject-forwarding-redirect",
    "allow-metric-labels",
    "contention-profiling",
    "coordinated-leadership-",
    "delete-collection-workers",
    "disable-http2-serving",
    "disabled-metrics",
    "enable-aggregator-routing",
    "enable-logs-handler",
    "enable-priority-and-fairness",
    "endpoint-reconciler-type",
    "etcd-",
    "external-hostname",
    "goaway-chance",
    "http2-max-streams-per-connection",
    "kubelet-",
    "lease-reuse-duration-seconds",
    "livez-grace-period",
    "log-",
    "logging-format",
    "max-connection-bytes-per-sec",
    "max-mutating-requests-inflight",
    "max-requests-inflight",
    "min-request-timeout",
    "peer-",
    "permit-",
    "profiling",
    "proxy-client-",
    "request-timeout",
    "service-account-extend-token-expiration",
    "show-hidden-metrics-for-version",
    "shutdown-",
    "storage-initialization-timeout",
    "storage-media-type",
    "v",
    "vmodule",
    "watch-cache",
)
"""Names of flags; a `-` at the end stands for the rest of the name."""
_WARNED: Final = (
    "audit-",
    "cors-allowed-origins",
    "debug-socket-path",
    "encryption-provider-config",
    "requestheader-",
    "strict-transport-security-directives",
    "tls-cipher-suites",
    "tls-curve-preferences",
    "tracing-config-file",
)
_REFUSED_ANYWAY: Final = ("etcd-servers-overrides",)

_MODES: Final = ("ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook")
_SERVED_MODES: Final = ("AlwaysAllow", "Node", "RBAC")
_STAGES: Final = ("api/all", "api/ga", "api/beta", "api/alpha")
_WAY_OUT: Final = "remove it, or use the real kube-apiserver"
_PREFIX: Final = "/registry"

Warn: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the flags say, apart from the data folder."""

    options: ServerOptions
    host: str
    port: int
    advertised: str
    """The address in the `kubernetes` Service; empty: that of the server."""
    etcd: tuple[str, ...]
    prefix: str
    """The name of the data folder's part for this server; empty by default."""
    certificate: Path
    key: Path
    generated: bool
    """Whether the certificate may be made if it does not exist: it is in --cert-dir."""
    tls_version: str
    client_ca: Path | None


def read_settings(flags: Flags, warn: Warn) -> Settings:
    """Return the settings. Raises ConfigError that lists all errors, in the real program's words and order."""
    gates = _feature_gates(flags, warn)
    runtime_config, errors = _runtime_config(flags, gates, warn)
    errors = [
        *_missing(flags),
        *_unsupported(flags, warn),
        *_mode_errors(flags),
        *_plugin_errors(flags),
        *errors,
    ]
    if errors:
        raise ConfigError(f"[{', '.join(errors)}]" if len(errors) > 1 else errors[0])
    folder, certificate = Path(flags.text("cert-dir")), flags.text("tls-cert-file")
    client_ca = flags.text("client-ca-file")
    return Settings(
        options=_options(flags, runtime_config),
        host=flags.text("bind-address"),
        port=int(flags.text("secure-port")),
        advertised=flags.text("advertise-address"),
        etcd=tuple(flags.texts("etcd-servers")),
        prefix=flags.text("etcd-prefix").removeprefix(_PREFIX).strip("/").replace("/", "_"),
        certificate=Path(certificate) if certificate else folder / "apiserver.crt",
        key=Path(flags.text("tls-private-key-file")) if certificate else folder / "apiserver.key",
        generated=not certificate,
        tls_version=flags.text("tls-min-version"),
        client_ca=Path(client_ca) if client_ca else None,
    )


def _options(flags: Flags, runtime_config: dict[str, bool]) -> ServerOptions:
    keys = flags.texts("service-account-key-file")
    issuer, *further_issuers = flags.texts("service-account-issuer")
    enabled, disabled = (set(flags.texts(f"{word}-admission-plugins")) for word in ("enable", "disable"))
    modes = flags.texts("authorization-mode") or ["AlwaysAllow"]
    return ServerOptions(
        history_seconds=parse_duration(flags.text("etcd-compaction-interval")).total_seconds(),
        event_seconds=parse_duration(flags.text("event-ttl")).total_seconds(),
        tokens=_tokens(flags.text("token-auth-file")),
        anonymous=flags.is_true("anonymous-auth"),
        issuer=issuer,
        further_issuers=tuple(further_issuers),
        audiences=tuple(flags.texts("api-audiences")),
        signing_key=_content(flags.text("service-account-signing-key-file")),
        verifying_keys=tuple(_content(each) for each in keys),
        service_cidr=flags.text("service-cluster-ip-range").partition(",")[0] or "10.0.0.0/24",
        node_ports=port_range(flags.text("service-node-port-range")),
        runtime_config=runtime_config,
        disabled_admission=frozenset(disabled - enabled),
        enabled_admission=frozenset(enabled),
        allow_all="AlwaysAllow" in modes,
        node_authorizer="Node" in modes,
    )


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"failed to parse service-account-issuer-key-file: open {path}: {error.strerror}") from error


def _tokens(path: str) -> dict[str, UserInfo]:
    """Read a token file: token, user, uid and optionally groups in each line, as CSV."""
    if not path:
        return {}
    try:
        rows = list(csv.reader(Path(path).read_text().splitlines(), skipinitialspace=True))
    except OSError as error:
        raise ConfigError(f"open {path}: {error.strerror}") from error
    tokens: dict[str, UserInfo] = {}
    for row in rows:
        if len(row) < 3:
            raise ConfigError(
                f"token file '{path}' must have at least 3 columns (token, user name, user uid), found {len(row)}"
            )
        token, user, uid, *groups = row
        if token:
            tokens[token] = UserInfo(user, tuple(each for each in (groups or [""])[0].split(",") if each), uid)
    return tokens


# Errors


def _missing(flags: Flags) -> Iterator[str]:
    if not flags.texts("etcd-servers"):
        yield "--etcd-servers must be specified"
    port = int(flags.text("secure-port"))
    if not 1 <= port <= 65535:
        yield f"--secure-port {port} must be between 1 and 65535, inclusive. It cannot be turned off with 0"
    issuers = flags.texts("service-account-issuer")
    if not issuers:
        yield "service-account-issuer is a required flag"
    if not flags.text("service-account-key-file"):
        yield "either `--service-account-key-file` or `--service-account-signing-endpoint` must be set"
    if not flags.text("service-account-signing-key-file") or not issuers:
        yield "--service-account-signing-key-file and --service-account-issuer are required flags"
    for position, cidr in enumerate(filter(None, flags.text("service-cluster-ip-range").split(","))):
        try:
            ipaddress.ip_network(cidr, strict=False)
        except ValueError:
            yield f"service-cluster-ip-range[{position}] is not a valid cidr"


def _unsupported(flags: Flags, warn: Warn) -> Iterator[str]:
    for name, values in flags.given.items():
        if _is_in(name, _REFUSED_ANYWAY) or not (name in _HONORED or _is_in(name, (*_WITHOUT_EFFECT, *_WARNED))):
            if values[-1] not in (flags.default(name), _zero(flags, name)):
                yield f"--{name} is not supported by the embedded API server; {_WAY_OUT}"
        elif _is_in(name, _WARNED):
            warn(f"--{name} has no effect in the embedded API server")


def _zero(flags: Flags, name: str) -> str:
    """Return the value of a flag that shows no default."""
    return "" if flags.default(name) else "false"


def _is_in(name: str, names: Iterable[str]) -> bool:
    return any(name == each or (each.endswith("-") and name.startswith(each)) for each in names)


def _plugin_errors(flags: Flags) -> Iterator[str]:
    known = {name: default == "1" for name, default in _facts("admission-plugins")}
    enabled, disabled = (flags.texts(f"{word}-admission-plugins") for word in ("enable", "disable"))
    for word, chosen in (("enable", enabled), ("disable", disabled)):
        for name in chosen:
            if name not in known:
                yield f'{word}-admission-plugins plugin "{name}" is unknown'
    for name in enabled:
        if name in disabled and name in known:
            yield f"[{name}] in enable-admission-plugins and disable-admission-plugins overlapped"
        elif name in names.UNSUPPORTED:
            yield f'enable-admission-plugins plugin "{name}" is not supported by the embedded API server; {_WAY_OUT}'


def _mode_errors(flags: Flags) -> Iterator[str]:
    for mode in flags.texts("authorization-mode"):
        if mode not in _MODES:
            yield f'authorization-mode "{mode}" is not a valid mode'
        elif mode not in _SERVED_MODES:
            yield f'authorization-mode "{mode}" is not supported by the embedded API server; {_WAY_OUT}'


def _feature_gates(flags: Flags, warn: Warn) -> dict[str, bool]:
    """Return the gates on the command line. Raises ConfigError for the first error, as the real program does."""
    known = {name: (stage, on == "1") for name, stage, on in _facts("feature-gates")}
    gates: dict[str, bool] = {}
    for part in flags.texts("feature-gates"):
        name, equals, value = part.removeprefix("kube:").partition("=")
        if not equals:
            raise ConfigError(f"missing bool value for {name}")
        if name not in known:
            raise ConfigError(f"unrecognized feature gate: {name}")
        stage, default = known[name]
        gates[name] = _bool_of(name, value)
        if gates[name] != default and stage == "GA":
            raise ConfigError(
                f"cannot set feature gate {name} to {str(gates[name]).lower()}, feature is locked to "
                f"{str(default).lower()}"
            )
        if gates[name] != default and name not in _optional_gates():
            warn(f"feature gate {part} has no effect in the embedded API server")
    return gates


def _bool_of(name: str, value: str) -> bool:
    if value not in (*TRUE, *FALSE):
        raise ConfigError(f'invalid value of {name}={value}, err: strconv.ParseBool: parsing "{value}": invalid syntax')
    return value in TRUE


def _optional_gates() -> list[str]:
    return [each.feature_gate for each in catalog.OPTIONAL.values()]


def _runtime_config(flags: Flags, gates: dict[str, bool], warn: Warn) -> tuple[dict[str, bool], list[str]]:
    """Return which optional APIs are on, and the errors."""
    wanted = {name: value for name, _, value in (part.partition("=") for part in flags.texts("runtime-config"))}
    served, groups = {str(gv) for gv in catalog.group_versions()}, {group.name for group in catalog.groups()}
    optional = [str(gv) for gv in catalog.OPTIONAL]
    unknown = sorted(name for name in wanted if name not in _STAGES and _group(name) not in groups)
    errors = [f"unknown api groups {','.join(unknown)}"] if unknown else []
    for name, value in wanted.items():
        is_on = value.lower() != "false"
        if name in _STAGES and is_on:
            warn(f"--runtime-config={name}=true: of what is off by default, only {', '.join(optional)} is served")
        elif name not in (*optional, *unknown) and is_on != (name in served):
            errors.append(f"--runtime-config={name}={value} is not supported by the embedded API server; {_WAY_OUT}")
    on = {
        str(gv): _is_chosen(gv, wanted) and gates.get(api.feature_gate, False) for gv, api in catalog.OPTIONAL.items()
    }
    return on, errors


def _is_chosen(gv: GroupVersion, wanted: dict[str, str]) -> bool:
    stage = "api/alpha" if "alpha" in gv.version else "api/beta"
    value = wanted.get(str(gv), wanted.get(stage, wanted.get("api/all", "false")))
    return value.lower() != "false"


def _group(name: str) -> str:
    return name.partition("/")[0] if "/" in name else ""


def _facts(name: str) -> list[list[str]]:
    return [line.split(" ") for line in Path(__file__).with_name(name).read_text().splitlines()]
