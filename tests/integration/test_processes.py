"""Pods that run as processes on this machine, as users see them."""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from integration.programs import SLEEP, Programs, ended, is_alive, is_ready, is_running, process_id, status
from integration.programs import programs as programs
from kubewright import ObjectMeta
from kubewright.apis.core.v1 import ConfigMap, Pod, Secret
from kubewright.apis.rbac.v1 import Role, RoleBinding, RoleRef, Subject
from kubewright.client._patch import MergePatch, StrategicPatch
from kubewright.client._transport import HTTPTransport
from kubewright.http.message import Request
from kubewright.models import PolicyRule, codec, role
from kubewright.testing import eventually, gone
from kubewright_controlplane.kubelet.images import Image
from websockets_client import WebSocketClient, websocket

# ---- environment, volumes and API access of a container


async def test_an_image_that_is_not_in_the_table_is_simulated(programs: Programs) -> None:
    await programs.pod([{"image": "nginx"}])
    pod = await programs.until(is_ready)
    assert (status(pod).container_id or "").startswith("simulated://")
    assert "is simulated" in await programs.log()


async def test_command_arguments_and_environment_come_from_the_pod(programs: Programs) -> None:
    await programs.client.create(
        ConfigMap(metadata=ObjectMeta(name="cm", namespace=programs.namespace), data={"one": "1", "two": "2"})
    )
    await programs.client.create(
        Secret(metadata=ObjectMeta(name="s", namespace=programs.namespace), data={"password": b"hidden"})
    )
    show = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)])); " + SLEEP
    image = programs.image(show, env={"IMAGE": "says", "A": "overridden"}, args=("not", "used"))
    env = [
        {"name": "A", "value": "a"},
        {"name": "B", "value": "$(A)b $(NONE) $$(A) $(CM_one)"},
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "s", "key": "password"}}},
        {"name": "MISSING", "valueFrom": {"secretKeyRef": {"name": "no", "key": "x", "optional": True}}},
        {"name": "1-data.x#", "value": "relaxed"},
    ]
    await programs.pod(
        [
            {
                "image": image,
                "args": ["--label=$(LABEL)", "$(B)"],
                "env": env,
                "envFrom": [{"prefix": "CM_", "configMapRef": {"name": "cm"}}],
                "resources": {"limits": {"cpu": "1500m"}},
            }
        ]
    )
    pod = await programs.until(is_running)
    arguments, values = json.loads(await programs.says("]"))
    assert arguments == ["--label=", "ab $(NONE) $(A) 1"]
    assert values["IMAGE"] == "says"
    assert values["A"] == "a"
    assert values["CM_two"] == "2"
    assert values["POD_IP"] == pod.status.pod_ip
    assert values["CPU"] == "1500"
    assert values["PASSWORD"] == "hidden"
    assert "MISSING" not in values
    assert values["1-data.x#"] == "relaxed"
    assert values["HOSTNAME"] == "p"
    assert f"https://{values['KUBERNETES_SERVICE_HOST']}:{values['KUBERNETES_SERVICE_PORT']}" == (
        programs.cluster.config.server
    )


async def test_the_environment_of_the_control_plane_does_not_leak(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/an/administrators")
    monkeypatch.setenv("CLOUD_TOKEN", "secret")
    await programs.run("import json, os; print(json.dumps(dict(os.environ))); " + SLEEP)
    values = json.loads(await programs.says("}"))
    assert not {"KUBECONFIG", "CLOUD_TOKEN"} & set(values)
    assert values["HOME"] == values["CONTAINER_SANDBOX_MOUNT_POINT"] != os.environ["HOME"]


READ = """
import os, sys, time
root = os.environ["CONTAINER_SANDBOX_MOUNT_POINT"]
while True:
    try:
        print(*[open(root + path).read() for path in sys.argv[1:]], flush=True)
    except FileNotFoundError as error:
        print(error, flush=True)
    time.sleep(0.05)
"""


async def test_volumes_are_mounted_and_kept_up_to_date(programs: Programs) -> None:
    meta = ObjectMeta(name="cm", namespace=programs.namespace)
    held = await programs.client.create(ConfigMap(metadata=meta, data={"a": "first", "b": "first"}))
    projected = [
        {"configMap": {"name": "cm", "items": [{"key": "b", "path": "deep/b"}]}},
        {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    ]
    await programs.pod(
        [
            {
                "image": programs.image(READ),
                "args": ["/etc/cm/a", "/etc/all/deep/b", "/etc/all/name", "/one"],
                "volumeMounts": [
                    {"name": "cm", "mountPath": "/etc/cm"},
                    {"name": "all", "mountPath": "/etc/all"},
                    {"name": "cm", "mountPath": "/one", "subPath": "a"},
                    {"name": "scratch", "mountPath": "/scratch"},
                ],
            }
        ],
        volumes=[
            {"name": "cm", "configMap": {"name": "cm"}},
            {"name": "all", "projected": {"sources": projected}},
            {"name": "scratch", "emptyDir": {}},
        ],
    )
    await programs.says("first first p first\n")
    await programs.client.patch(held, MergePatch({"data": {"a": "second", "b": "second"}}))
    await programs.says("second second p second\n")


async def test_a_pod_waits_for_a_config_map_and_reports_it(programs: Programs) -> None:
    await programs.pod([{"image": programs.image(SLEEP), "envFrom": [{"configMapRef": {"name": "late"}}]}])
    pod = await programs.until(lambda pod: status(pod).state.waiting.message)  # type: ignore[union-attr]
    state = status(pod).state
    assert state is not None
    assert state.waiting is not None
    assert (state.waiting.reason, state.waiting.message) == (
        "CreateContainerConfigError",
        'configmap "late" not found',
    )
    assert pod.status.phase == "Pending"
    assert (await programs.ask_log())[0] == 400
    await programs.client.create(ConfigMap(metadata=ObjectMeta(name="late", namespace=programs.namespace)))
    await programs.until(is_ready)


IN_CLUSTER = """
import asyncio, sys
from kubewright import Client, Config
from kubewright.apis.core.v1 import ConfigMap, Secret
from kubewright.machinery.errors import APIError

async def main():
    client = Client(Config.load())
    for kind in (ConfigMap, Secret):
        try:
            await client.list(kind, namespace=sys.argv[1])
            print(kind.__name__, "allowed", flush=True)
        except APIError as error:
            print(error, flush=True)
    await asyncio.sleep(1000)

asyncio.run(main())
"""


async def test_a_program_in_a_pod_has_only_the_permissions_of_its_service_account(programs: Programs) -> None:
    meta = ObjectMeta(name="reader", namespace=programs.namespace)
    rules = [PolicyRule(api_groups=[""], resources=["configmaps"], verbs=["list"])]
    await programs.client.create(codec.from_dict(Role, role("reader", programs.namespace, rules)))
    group = "rbac.authorization.k8s.io"
    await programs.client.create(
        RoleBinding(
            metadata=meta,
            role_ref=RoleRef(api_group=group, kind="Role", name="reader"),
            subjects=[Subject(kind="ServiceAccount", name="default", namespace=programs.namespace)],
        )
    )
    image = programs.image("")
    programs.table.put(image, Image((sys.executable, "-c", IN_CLUSTER)))
    await programs.pod([{"image": image, "args": [programs.namespace]}])
    said = await programs.says("forbidden")
    assert "ConfigMap allowed" in said
    assert f"system:serviceaccount:{programs.namespace}:default" in said


# ---- exits and restarts


async def test_a_killed_process_is_restarted(programs: Programs) -> None:
    program = "import os; print(os.getpid(), flush=True); " + SLEEP
    await programs.run(program)
    pid = process_id(await programs.says("\n"))
    os.kill(pid, signal.SIGKILL)
    pod = await programs.until(lambda pod: status(pod).restart_count == 1 and is_running(pod))
    last = status(pod).last_state
    assert last is not None
    assert last.terminated is not None
    assert (last.terminated.exit_code, last.terminated.reason) == (137, "Error")
    assert process_id(await programs.says("\n")) != pid
    assert process_id(await programs.log("previous=true")) == pid


async def test_a_resized_container_is_restarted_only_if_its_policy_says_so(programs: Programs) -> None:
    show = "import os; print(os.environ['CPU'], flush=True); " + SLEEP
    container: dict[str, Any] = {
        "image": programs.image(show),
        "env": [{"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "requests.cpu", "divisor": "1m"}}}],
        "resources": {"requests": {"cpu": "100m", "memory": "8Mi"}},
    }
    restarts = {"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}
    await programs.pod([{**container, **restarts}, container, {"image": "nginx"}])
    pod = await programs.until(is_running)
    assert [each.resources.requests if each.resources else None for each in pod.status.container_statuses] == [
        {"cpu": "100m", "memory": "8Mi"}, {"cpu": "100m", "memory": "8Mi"}, {},
    ]  # fmt: skip
    sizes = [{"name": f"c{number}", "resources": {"requests": {"cpu": "250m"}}} for number in range(2)]
    await programs.client.patch(pod, StrategicPatch({"spec": {"containers": sizes}}), subresource="resize")

    def resized(pod: Pod) -> bool:
        allocated = [each.allocated_resources.get("cpu") for each in pod.status.container_statuses]
        return allocated == ["250m", "250m", None] and status(pod).restart_count == 1 and is_running(pod)

    pod = await programs.until(resized)
    assert status(pod, 1).restart_count == 0
    await programs.says("250")


async def test_a_program_that_fails_repeatedly_is_restarted_with_backoff(programs: Programs) -> None:
    await programs.pod([{"image": programs.image("print('no luck'); raise SystemExit(3)")}])

    def waits(pod: Pod) -> bool:
        state = status(pod).state
        return state is not None and state.waiting is not None and state.waiting.reason == "CrashLoopBackOff"

    pod = await programs.until(waits)
    found = status(pod)
    assert found.restart_count == 1
    assert found.state is not None
    assert found.state.waiting is not None
    assert (found.state.waiting.message or "").startswith("back-off 10s restarting failed container=c0 pod=p_")
    assert found.last_state is not None
    assert found.last_state.terminated is not None
    assert found.last_state.terminated.exit_code == 3
    assert pod.status.phase == "Running"
    assert not is_ready(pod)
    assert await programs.log() == "no luck\n"
    assert await programs.events("BackOff")


@pytest.mark.parametrize(
    ("program", "policy", "phase", "code"),
    [("", "Never", "Succeeded", 0), ("raise SystemExit(4)", "Never", "Failed", 4), ("", "OnFailure", "Succeeded", 0)],
)
async def test_the_restart_policy_decides_what_follows_an_exit(
    programs: Programs, program: str, policy: str, phase: str, code: int
) -> None:
    await programs.pod([{"image": programs.image(program)}], restartPolicy=policy)
    pod = await programs.until(lambda pod: pod.status.phase in ("Succeeded", "Failed"))
    state = status(pod).state
    assert pod.status.phase == phase
    assert state is not None
    assert state.terminated is not None
    assert (state.terminated.exit_code, state.terminated.reason) == (code, "Error" if code else "Completed")
    await programs.client.delete(pod)
    await gone(programs.get)


async def test_a_missing_program_is_named(programs: Programs) -> None:
    await programs.pod([{"image": programs.image(""), "command": ["/nowhere/manager"]}], restartPolicy="Never")
    pod = await programs.until(lambda pod: pod.status.phase == "Failed")
    state = status(pod).state
    assert state is not None
    assert state.terminated is not None
    assert (state.terminated.reason, state.terminated.exit_code) == ("StartError", 128)
    assert '"/nowhere/manager": no such file' in (state.terminated.message or "")


GRACEFUL = """
import os, signal, sys, time
def end(*_):
    print("ending", flush=True)
    sys.exit(7)
signal.signal(signal.SIGTERM, end)
print(os.getpid(), flush=True)
time.sleep(1000)
"""
STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(1000)"])
print(os.getpid(), child.pid, flush=True)
time.sleep(1000)
"""


async def test_a_deleted_pod_gets_sigterm_and_is_removed_after_its_exit(programs: Programs) -> None:
    pod = await programs.run(GRACEFUL)
    async with aclosing(programs.follow()) as lines:
        pid = int(await anext(lines))
        await programs.client.delete(pod)
        await gone(programs.get)
        assert not is_alive(pid)
        assert [line async for line in lines] == ["ending"]


async def test_a_pod_that_does_not_exit_is_killed_after_its_grace_period_with_its_children(programs: Programs) -> None:
    pod = await programs.run(STUBBORN)
    parent, child = map(int, (await programs.says("\n")).split())
    await programs.client.delete(pod, grace_period=1)
    await gone(programs.get)
    await ended(parent)
    await ended(child)


async def test_a_pod_deleted_by_force_leaves_nothing_behind(programs: Programs) -> None:
    pod = await programs.run(STUBBORN)
    parent, child = map(int, (await programs.says("\n")).split())
    await programs.client.delete(pod, grace_period=0)
    await ended(parent)
    await ended(child)


async def test_a_pre_stop_hook_runs_before_sigterm(programs: Programs) -> None:
    hook = ["/bin/sh", "-c", 'echo stopped > "$CONTAINER_SANDBOX_MOUNT_POINT/tmp/note"']
    tell = GRACEFUL.replace('"ending"', 'open(os.environ["TMPDIR"] + "/note").read()')
    pod = await programs.run(tell, lifecycle={"preStop": {"exec": {"command": hook}}})
    async with aclosing(programs.follow()) as lines:
        await anext(lines)
        await programs.client.delete(pod)
        assert [line async for line in lines] == ["stopped", ""]


async def test_a_pod_over_its_deadline_fails(programs: Programs) -> None:
    await programs.pod([{"image": programs.image(SLEEP)}], activeDeadlineSeconds=1, terminationGracePeriodSeconds=1)
    pod = await programs.until(lambda pod: pod.status.phase == "Failed")
    assert pod.status.reason == "DeadlineExceeded"


# ---- several containers


WRITE = (
    """
import os, sys
with open(os.environ["CONTAINER_SANDBOX_MOUNT_POINT"] + sys.argv[1], "wb") as file:
    file.write(b"x" * 200_000)
"""
    + SLEEP
)


async def test_a_pod_that_exceeds_its_disk_limits_is_evicted(programs: Programs) -> None:
    image, volumes = programs.image(WRITE), [{"name": "data", "emptyDir": {"sizeLimit": "100Ki"}}]
    mounts = [{"name": "data", "mountPath": "/data"}]
    limits = {"limits": {"ephemeral-storage": "100Ki"}}
    await programs.pod([{"image": image, "args": ["/data/x"], "volumeMounts": mounts}], "volume", volumes=volumes)
    await programs.pod([{"image": image, "args": ["/tmp/x"], "resources": limits}], "files")
    for name, message in (
        ("volume", 'Usage of EmptyDir volume "data" exceeds the limit "100Ki". '),
        ("files", "Pod ephemeral local storage usage exceeds the total limit of containers 100Ki. "),
    ):
        evicted = await programs.until(lambda pod: pod.status.phase == "Failed", name)
        assert (evicted.status.reason, evicted.status.message) == ("Evicted", message)
        assert message in await programs.events("Evicted")


async def test_init_containers_run_one_after_the_other_before_the_rest(programs: Programs) -> None:
    say = "import os; open(os.environ['CONTAINER_SANDBOX_MOUNT_POINT'] + '/all/said', 'a').write(os.environ['SAY'])"
    mount = [{"name": "all", "mountPath": "/all"}]
    image = programs.image(say)
    inits = [
        {"name": name, "image": image, "env": [{"name": "SAY", "value": name}], "volumeMounts": mount}
        for name in ("first", "second")
    ]
    await programs.pod(
        [{"image": programs.image(READ), "args": ["/all/said"], "volumeMounts": mount}],
        initContainers=inits,
        volumes=[{"name": "all", "emptyDir": {}}],
    )
    assert "firstsecond" in await programs.says("\n")
    pod = await programs.until(is_ready)
    assert [each.state.terminated is not None for each in pod.status.init_container_statuses if each.state] == [
        True
    ] * 2
    assert all(each.ready for each in pod.status.init_container_statuses)


async def test_the_conditions_of_a_pod_name_the_containers_that_it_waits_for(programs: Programs) -> None:
    inits = [{"name": "wait", "image": programs.image(SLEEP)}]
    await programs.pod([{"image": programs.image(SLEEP)}], initContainers=inits)
    pod = await programs.until(lambda pod: pod.status.init_container_statuses[0].state.running)  # type: ignore[union-attr]
    found = {each.type: (each.status, each.reason, each.message) for each in pod.status.conditions}
    assert found["Initialized"] == ("False", "ContainersNotInitialized", "containers with incomplete status: [wait]")
    assert found["Ready"] == ("False", "ContainersNotReady", "containers with unready status: [c0]")


async def test_an_init_container_that_fails_fails_a_pod_that_is_never_restarted(programs: Programs) -> None:
    failing = {"name": "first", "image": programs.image("raise SystemExit(1)")}
    await programs.pod([{"image": programs.image(SLEEP)}], initContainers=[failing], restartPolicy="Never")
    pod = await programs.until(lambda pod: pod.status.phase == "Failed")
    assert not is_running(pod)


async def test_a_sidecar_runs_with_the_other_containers_and_ends_after_them(programs: Programs) -> None:
    sidecar = {"name": "side", "image": programs.image(GRACEFUL), "restartPolicy": "Always"}
    await programs.pod([{"image": programs.image("")}], initContainers=[sidecar], restartPolicy="Never")
    pod = await programs.until(lambda pod: pod.status.phase == "Succeeded")
    state = pod.status.init_container_statuses[0].state
    assert state is not None
    assert state.terminated is not None


ANSWER = """
import http.server, os, sys, threading
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        print("asked for", self.path, flush=True)
        self.send_response(200)
        self.end_headers()
address = os.environ["KUBEWRIGHT_BIND_HOST"], 8341
server = http.server.ThreadingHTTPServer(address, Handler)
server.serve_forever()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all addresses of 127.0.0.0/8")
async def test_sidecars_serve_the_pre_stop_hooks_of_the_other_containers(programs: Programs) -> None:
    probe = {"tcpSocket": {"port": 8341}, "periodSeconds": 1}
    sidecar = {"name": "side", "image": programs.image(ANSWER), "restartPolicy": "Always", "startupProbe": probe}
    hook = {"preStop": {"httpGet": {"port": 8341, "path": "/bye"}}}
    finalizers = MergePatch({"metadata": {"finalizers": ["test.kubewright.dev/hold"]}})
    await programs.pod([{"image": programs.image(SLEEP), "lifecycle": hook}], initContainers=[sidecar])
    pod = await programs.client.patch(Pod, finalizers, name="p", namespace=programs.namespace)
    await programs.until(is_running)
    await programs.client.delete(pod, grace_period=5)
    await programs.until(lambda pod: pod.status.init_container_statuses[0].state.terminated)
    assert "asked for /bye" in await programs.log("container=side")
    released = MergePatch({"metadata": {"finalizers": None}})
    await programs.client.patch(Pod, released, name="p", namespace=programs.namespace)


async def test_a_pod_may_have_simulated_and_running_containers(programs: Programs) -> None:
    await programs.pod([{"image": programs.image("print('real', flush=True); " + SLEEP)}, {"image": "nginx"}])
    pod = await programs.until(is_ready)
    schemes = [(each.container_id or "").partition(":")[0] for each in pod.status.container_statuses]
    assert schemes == ["process", "simulated"]
    assert "is simulated" in await programs.log("container=c1")


# ---- probes

SWITCHED = """
import os, sys, time
open(os.environ["TMPDIR"] + "/up", "w").close()
print(os.environ["TMPDIR"], flush=True)
time.sleep(1000)
"""
LOOK = {"exec": {"command": ["/bin/sh", "-c", 'test -e "$TMPDIR/up"']}, "periodSeconds": 1, "timeoutSeconds": 30}


async def test_readiness_follows_its_probe(programs: Programs) -> None:
    await programs.run(SWITCHED, readinessProbe={**LOOK, "failureThreshold": 1})
    await programs.until(is_ready)
    up = Path((await programs.says("\n")).strip(), "up")
    up.unlink()
    pod = await programs.until(lambda pod: not is_ready(pod))
    assert is_running(pod)
    assert any("Readiness probe failed" in each for each in await programs.events("Unhealthy"))
    up.touch()
    await programs.until(is_ready)


async def test_a_container_that_fails_its_liveness_probe_is_restarted(programs: Programs) -> None:
    probe = {**LOOK, "failureThreshold": 1, "terminationGracePeriodSeconds": 1}
    await programs.run(SWITCHED, startupProbe={**LOOK, "failureThreshold": 60}, livenessProbe=probe)
    await programs.until(is_ready)
    Path((await programs.says("\n")).strip(), "up").unlink()
    await programs.until(lambda pod: status(pod).restart_count == 1 and is_running(pod))
    assert any("failed liveness probe" in each for each in await programs.events("Killing"))


SERVE = """
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/healthz" and self.headers["X-Who"] == "probe" else 404)
        self.end_headers()
    def log_message(self, *_): ...
http.server.ThreadingHTTPServer((os.environ["KUBEWRIGHT_BIND_HOST"], 8081), Handler).serve_forever()
"""


HEALTH = """
import os, socketserver, struct
def frame(kind, flags, stream, body=b""):
    return len(body).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + body
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        assert self.rfile.read(24).startswith(b"PRI * HTTP/2.0")
        self.wfile.write(frame(4, 0, 0))
        while head := self.rfile.read(9):
            body = self.rfile.read(int.from_bytes(head[:3], "big"))
            if head[3] == 0:
                status = {b"": 1, b"\\n\\x04work": 2}[body[5:]]
                self.wfile.write(frame(1, 4, 1, b"\\x88") + frame(0, 0, 1, bytes((0, 0, 0, 0, 2, 8, status))))
                self.wfile.write(frame(1, 5, 1, b"\\x00\\x0bgrpc-status\\x010"))
socketserver.ThreadingTCPServer((os.environ["KUBEWRIGHT_BIND_HOST"], 8082), Handler).serve_forever()
"""


async def test_a_grpc_probe_asks_for_the_health_of_a_service(programs: Programs) -> None:
    probes = {
        "startupProbe": {"tcpSocket": {"port": 8082}, "periodSeconds": 1, "failureThreshold": 30},
        "readinessProbe": {"grpc": {"port": 8082}, "periodSeconds": 1, "timeoutSeconds": 30},
    }
    image = programs.image(HEALTH)
    await programs.pod([{"image": image, **probes}])
    await programs.until(is_ready)
    probes["readinessProbe"] = {"grpc": {"port": 8082, "service": "work"}, "periodSeconds": 1, "timeoutSeconds": 30}
    await programs.pod([{"image": image, **probes}], "q")
    await programs.until(is_running, "q")

    async def fails() -> None:
        assert any(
            'service unhealthy (responded with "NOT_SERVING")' in each for each in await programs.events("Unhealthy")
        )

    await eventually(fails)
    assert not is_ready(await programs.get("q"))


async def test_the_end_of_the_log_may_be_the_termination_message(programs: Programs) -> None:
    fails = programs.image("import sys; print('x' * 3000); print('out of luck'); sys.exit(1)")
    message = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    quiet = programs.image("print('fine')")
    await programs.pod(
        [{"image": fails, **message}, {"image": quiet, **message}, {"image": fails}], restartPolicy="Never"
    )

    def has_ended(pod: Pod) -> bool:
        return pod.status.phase == "Failed"

    pod = await programs.until(has_ended)
    ended = [each.state.terminated for each in pod.status.container_statuses if each.state is not None]
    messages = [each.message if each is not None else "" for each in ended]
    assert messages == ["x" * 2035 + "\nout of luck\n", None, None]


async def test_two_pods_listen_on_the_same_port_each_at_its_address(programs: Programs) -> None:
    get = {"path": "/healthz", "port": "health", "httpHeaders": [{"name": "X-Who", "value": "probe"}]}
    container = {
        "image": programs.image(SERVE),
        "ports": [{"name": "health", "containerPort": 8081}],
        "startupProbe": {"tcpSocket": {"port": 8081}, "periodSeconds": 1, "failureThreshold": 30},
        "readinessProbe": {"httpGet": get, "periodSeconds": 1},
    }
    for name in ("p", "q"):
        await programs.pod([container], name)
    found = [await programs.until(is_ready, name) for name in ("p", "q")]
    assert found[0].status.pod_ip != found[1].status.pod_ip
    assert all(status(each).restart_count == 0 for each in found)


# ---- logs


async def test_logs_can_be_limited(programs: Programs) -> None:
    await programs.run("for n in range(5): print(f'line {n}', flush=True)\n" + SLEEP)
    await programs.says("line 4")
    assert await programs.log("tailLines=2") == "line 3\nline 4\n"
    assert await programs.log("limitBytes=8") == "line 0\nl"
    assert await programs.log("tailLines=0") == ""
    stamped = await programs.log("timestamps=true&tailLines=1")
    at, _, text = stamped.partition(" ")
    assert text == "line 4\n"
    assert await programs.log(f"sinceTime={at}") == "line 4\n"
    assert (await programs.log("sinceSeconds=600")).count("\n") == 5
    code, said = await programs.ask_log("previous=true")
    assert code == 400
    assert 'previous terminated container \\"c0\\" in pod \\"p\\" not found' in said


async def test_logs_are_followed_to_the_end(programs: Programs) -> None:
    program = "import time\nfor n in range(3): print(n, flush=True); time.sleep(0.2)"
    await programs.pod([{"image": programs.image(program)}], restartPolicy="Never")
    await programs.until(lambda pod: pod.status.phase != "Pending")
    assert [line async for line in programs.follow()] == ["0", "1", "2"]


async def test_logs_are_followed_over_a_websocket(programs: Programs) -> None:
    program = "import time\nfor n in range(3): print(n, flush=True); time.sleep(0.1)"
    await programs.pod([{"image": programs.image(program)}], restartPolicy="Never")
    await programs.until(lambda pod: pod.status.phase != "Pending")
    target = f"/api/v1/namespaces/{programs.namespace}/pods/p/log?follow=true"
    for protocols, decode in (([], bytes), (["base64.binary.k8s.io"], base64.b64decode)):
        async with websocket(programs.cluster.config, target, protocols) as socket:
            assert socket.status == 101
            received = [part async for part in _messages(socket)]
        assert not received[0]
        assert b"".join(decode(part) for part in received) == b"0\n1\n2\n"  # type: ignore[arg-type]


async def _messages(socket: WebSocketClient) -> AsyncIterator[bytes | str]:
    while (message := await socket.receive()) is not None:
        yield message


async def test_permission_to_get_pods_does_not_include_their_logs(programs: Programs) -> None:
    await programs.run(SLEEP)
    rules = [PolicyRule(api_groups=[""], resources=["pods"], verbs=["get"])]
    more = [PolicyRule(api_groups=[""], resources=["pods/log"], verbs=["get"])]
    target = f"/api/v1/namespaces/{programs.namespace}/pods/p/log"
    for given, expected in ((rules, 403), (rules + more, 200)):
        async with programs.cluster.service_account(given, namespace=programs.namespace) as account:
            transport = HTTPTransport(account)
            answer = await transport.send(Request("GET", target))
            assert answer.status == expected
            await transport.close()


# ---- permission to start processes


async def test_a_table_that_others_may_write_is_not_used(programs: Programs) -> None:
    image = programs.image(SLEEP)
    mode = programs.table.path.stat().st_mode & 0o777
    programs.table.path.chmod(0o666)
    try:
        await programs.pod([{"image": image}])
        assert "chmod go-w" in (await programs.events("ImageTable"))[0]
        pod = await programs.until(is_ready)
        assert (status(pod).container_id or "").startswith("simulated://")
    finally:
        programs.table.path.chmod(mode)
