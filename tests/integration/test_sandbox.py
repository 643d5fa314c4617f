"""Pods that run as processes in a sandbox, as their programs and kubectl see them."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from integration.command import cluster_of, up
from integration.kubectl import KUBECTL, Kubectl
from integration.programs import Programs, is_running, status
from integration.programs import programs as programs
from kubewright import ObjectMeta
from kubewright.apis.apps.v1 import ReplicaSet
from kubewright.apis.core.v1 import (
    ConfigMap,
    ContainerState,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    ServiceAccount,
)
from kubewright.apis.storage.v1 import StorageClass
from kubewright.client import MergePatch
from kubewright.models import codec
from kubewright.testing import eventually
from kubewright_controlplane import Environment, ServerOptions
from kubewright_controlplane.kubelet.images import Image


def reason_without_sandbox() -> str:
    """Return why there are no sandboxes on this machine; empty if there are."""
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed"
    own = [] if os.geteuid() == 0 else ["--unshare-user"]
    probe = ["bwrap", "--ro-bind", "/", "/", *own, "--unshare-pid", "--unshare-uts", "--proc", "/proc", "true"]
    done = subprocess.run(probe, capture_output=True, text=True)
    return "" if done.returncode == 0 else f"bubblewrap does not work here: {done.stderr}"


def static_busybox() -> str:
    """Return the path of a busybox that needs no libraries. Skips if there is none."""
    busybox = shutil.which("busybox")
    if busybox is None or b"not a dynamic" not in subprocess.run(["ldd", busybox], capture_output=True).stderr:
        pytest.skip("no busybox without libraries on this machine")
    return busybox


pytestmark = pytest.mark.skipif(bool(reason_without_sandbox()), reason=reason_without_sandbox() or "-")
needs_kubectl = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")

SHELL = "registry.test/shell"


@pytest_asyncio.fixture
async def shells(programs: Programs) -> AsyncIterator[Programs]:
    """Programs with an image that runs shell commands in a sandbox."""
    programs.table.put(SHELL, Image(("/bin/sh", "-c")))
    yield programs
    programs.table.remove(SHELL)


@pytest.fixture
def kubectl(programs: Programs) -> Kubectl:
    return Kubectl(programs.cluster.kubeconfig(), programs.namespace)


SPEC = ("volumes", "securityContext", "hostAliases", "hostNetwork", "hostPID", "dnsPolicy", "dnsConfig")
"""Fields of Pods that `output` accepts; the others are fields of its container."""


async def output(shells: Programs, script: str, name: str = "p", **more: Any) -> str:
    """Run a script to its end in a Pod. Returns its log."""
    spec = {key: more.pop(key) for key in SPEC if key in more}
    await shells.pod([{"image": SHELL, "args": [script], **more}], name=name, restartPolicy="Never", **spec)
    await shells.until(lambda pod: pod.status.phase in ("Succeeded", "Failed"), name)
    return await shells.log(name=name)


async def test_volumes_are_at_their_real_paths_and_change_with_their_objects(shells: Programs) -> None:
    meta = ObjectMeta(name="cm", namespace=shells.namespace)
    held = await shells.client.create(ConfigMap(metadata=meta, data={"a": "first\n", "page.html": "page\n"}))
    script = """
        cat /etc/nginx/nginx.conf /usr/share/nginx/html/page.html /usr/share/nginx/deep/sub/here
        cat /var/run/secrets/kubernetes.io/serviceaccount/namespace; echo
        until grep -q second /usr/share/nginx/html/a; do sleep 0.05; done
        echo changed; sleep 1000
    """
    mounts = [
        {"name": "cm", "mountPath": "/usr/share/nginx/html"},
        {"name": "cm", "mountPath": "/etc/nginx/nginx.conf", "subPath": "a"},
        {"name": "scratch", "mountPath": "/usr/share/nginx/deep/sub", "subPath": "one/two"},
    ]
    fill = {"name": "fill", "image": SHELL, "args": ["echo written > /s/one/two/here"], "volumeMounts": [
        {"name": "scratch", "mountPath": "/s"},
        {"name": "scratch", "mountPath": "/t", "subPath": "one/two"},
    ]}  # fmt: skip
    await shells.pod(
        [{"image": SHELL, "args": [script], "volumeMounts": mounts}],
        volumes=[{"name": "cm", "configMap": {"name": "cm"}}, {"name": "scratch", "emptyDir": {}}],
        initContainers=[fill],
    )
    said = await shells.says(f"{shells.namespace}\n")
    assert said.startswith("first\npage\nwritten\n")
    held.data = {"a": "second\n", "page.html": "page\n"}
    await shells.client.update(held)
    await shells.says("changed")


LOOK = """
import os
paths = ["/proc/sys/kernel/core_pattern", "/proc/sys", "/proc/irq", "/sys/kernel", "/etc/hosts", "/usr/bin"]
if os.geteuid() == 0:  # the owner, who could change their modes
    paths += ["/proc/1/exe", "/dev/null", "/dev/urandom"]
for path in paths:
    if os.path.exists(path) and not os.statvfs(path).f_flag & os.ST_RDONLY:
        print(path, "is on a mount that can be written")
print("looked")
"""
"""A program that looks only: it must not harm the machine when the sandbox is broken."""


async def test_a_container_can_change_nothing_outside_its_folder(shells: Programs, tmp_path: Path) -> None:
    meta = ObjectMeta(name="look", namespace=shells.namespace)
    await shells.client.create(ConfigMap(metadata=meta, data={"look.py": LOOK}))
    precious = tmp_path / "precious"
    precious.write_text("kept")
    script = f"""
        /usr/bin/python3 /look/look.py
        for path in {precious} /usr/new /home/new/new /.image/new/new /etc/hosts; do
            (echo lost > $path) 2>/dev/null && echo wrote $path
        done
        mount -o remount,rw /usr 2>/dev/null && echo remounted
        umount /usr 2>/dev/null && echo unmounted
        mknod /tmp/disk b 8 0 2>/dev/null && echo made a device
        for folder in / /etc /var/log /var/lib /tmp /run /dev/shm /root; do
            echo own > $folder/new || echo cannot write $folder
        done
        cat /etc/new
    """
    said = await output(
        shells,
        script,
        volumes=[{"name": "look", "configMap": {"name": "look"}}],
        volumeMounts=[{"name": "look", "mountPath": "/look"}],
    )
    assert said == "looked\nown\n"
    assert precious.read_text() == "kept"
    assert not Path("/etc/new").exists()


async def test_each_run_starts_with_a_fresh_root(shells: Programs) -> None:
    script = "ls /data /tmp; touch /data/x /tmp/x; exit 1"
    mounts = [{"name": "data", "mountPath": "/data"}]
    await shells.pod(
        [{"image": SHELL, "args": [script], "volumeMounts": mounts}], volumes=[{"name": "data", "emptyDir": {}}]
    )
    await shells.until(lambda pod: status(pod).restart_count)
    assert await shells.says("x") == "/data:\nx\n\n/tmp:\n"


async def test_a_container_has_its_own_names_and_processes(shells: Programs) -> None:
    script = "hostname; echo $$$$; cat /etc/hostname; cat /etc/hosts; ls -d /proc/[0-9]* | wc -l"
    said = await output(
        shells, script, name="web-0", hostAliases=[{"ip": "10.1.2.3", "hostnames": ["db.test", "other.test"]}]
    )
    pod = await shells.get("web-0")
    lines = said.splitlines()
    assert lines[:3] == ["web-0", "2", "web-0"]
    assert f"{pod.status.pod_ip}\tweb-0" in lines
    assert "10.1.2.3\tdb.test\tother.test" in lines
    assert int(lines[-1]) < 10


async def test_the_security_context_is_followed(shells: Programs) -> None:
    user = {"runAsUser": 1234, "runAsGroup": 2345, "readOnlyRootFilesystem": True}
    mounts = [{"name": "data", "mountPath": "/data"}]
    script = """
        id -u; id -g; echo x > /data/x && stat -c %u /data/x; (echo x > /new) 2>/dev/null || echo read-only
        echo done > /dev/termination-log
    """
    said = await _with_context(shells, script, user, mounts)
    assert said.split() == ["1234", "2345", "1234", "read-only"]
    state = status(await shells.get()).state
    assert state is not None
    assert state.terminated is not None
    assert state.terminated.message == "done\n"
    impossible = ({"runAsNonRoot": True, "runAsUser": 0}, {"privileged": True})
    for number, context in enumerate(impossible):
        await shells.pod([{"image": SHELL, "args": ["true"], "securityContext": context}], name=f"q{number}")
        pod = await shells.until(lambda pod: status(pod).state.waiting.message, f"q{number}")  # type: ignore[union-attr]
        assert next(iter(context)) in str(status(pod).state)


async def _with_context(shells: Programs, script: str, context: dict[str, Any], mounts: list[dict[str, str]]) -> str:
    container = {"image": SHELL, "args": [script], "securityContext": context, "volumeMounts": mounts}
    await shells.pod([container], restartPolicy="Never", volumes=[{"name": "data", "emptyDir": {}}])
    await shells.until(lambda pod: pod.status.phase in ("Succeeded", "Failed"))
    return await shells.log()


async def test_a_link_in_a_volume_does_not_lead_a_subpath_out_of_it(shells: Programs, tmp_path: Path) -> None:
    link = {"name": "link", "image": SHELL, "args": ["ln -s / /s/out"]}
    mounts = [{"name": "scratch", "mountPath": "/s"}]
    out = [{"name": "scratch", "mountPath": "/o", "subPath": f"out{tmp_path}/new"}]
    await shells.pod(
        [{"image": SHELL, "args": ["true"], "volumeMounts": out}],
        volumes=[{"name": "scratch", "emptyDir": {}}],
        initContainers=[link | {"volumeMounts": mounts}],
    )
    assert any("outside its volume" in each for each in await shells.events("FailedMount"))
    assert not list(tmp_path.iterdir())


async def test_signals_exit_codes_and_messages_pass_the_sandbox(shells: Programs) -> None:
    script = "trap 'echo bye > /dev/termination-log; exit 7' TERM; echo up; while :; do sleep 0.05; done"
    finalizers = MergePatch({"metadata": {"finalizers": ["test.kubewright.dev/hold"]}})
    await shells.pod([{"image": SHELL, "args": [script]}])
    pod = await shells.client.patch(Pod, finalizers, name="p", namespace=shells.namespace)
    await shells.says("up")
    await shells.client.delete(pod)
    pod = await shells.until(lambda pod: status(pod).state.terminated)  # type: ignore[union-attr]
    state = status(pod).state
    assert state is not None
    assert state.terminated is not None
    assert (state.terminated.exit_code, state.terminated.message) == (7, "bye\n")
    await shells.client.patch(Pod, MergePatch({"metadata": {"finalizers": None}}), name="p", namespace=shells.namespace)
    await shells.client.wait_until_gone(Pod, "p", namespace=shells.namespace)


async def test_a_missing_program_is_named(shells: Programs) -> None:
    await shells.pod([{"image": SHELL, "command": ["no-such-program"]}], restartPolicy="Never")
    pod = await shells.until(lambda pod: pod.status.phase == "Failed")
    state = status(pod).state
    assert state is not None
    assert state.terminated is not None
    assert (state.terminated.exit_code, state.terminated.reason) == (128, "StartError")
    assert '"no-such-program": executable file not found in $PATH' in (state.terminated.message or "")


async def test_a_script_from_a_config_map_can_be_the_program(shells: Programs) -> None:
    meta = ObjectMeta(name="cm", namespace=shells.namespace)
    await shells.client.create(ConfigMap(metadata=meta, data={"run.sh": "#!/bin/sh\necho ran in $PWD\n"}))
    mounts = [{"name": "cm", "mountPath": "/scripts"}]
    await shells.pod(
        [{"image": SHELL, "command": ["/scripts/run.sh"], "volumeMounts": mounts, "workingDir": "/work/here"}],
        volumes=[{"name": "cm", "configMap": {"name": "cm", "defaultMode": 0o755}}],
        restartPolicy="Never",
    )
    await shells.says("ran in /work/here\n")


async def test_an_image_with_files_of_its_own_sees_only_these(shells: Programs, tmp_path: Path) -> None:
    busybox = static_busybox()
    (tmp_path / "bin").mkdir()
    shutil.copy(busybox, tmp_path / "bin/busybox")
    (tmp_path / "bin/sh").symlink_to("busybox")
    (tmp_path / "greeting").write_text("hello\n")
    shells.table.put("registry.test/own", Image(("sh", "-c"), root=str(tmp_path)))
    try:
        script = "busybox cat /greeting; busybox ls /; (echo x > /bin/new) 2>/dev/null || echo read-only"
        await shells.pod([{"image": "registry.test/own", "args": [script]}], restartPolicy="Never")
        said = await shells.says("read-only")
    finally:
        shells.table.remove("registry.test/own")
    assert said.splitlines()[0] == "hello"
    assert "usr" not in said.split()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["bin", "greeting"]


async def test_a_user_and_a_terminal_need_no_program_of_the_image(shells: Programs, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    shutil.copy(static_busybox(), tmp_path / "bin/busybox")
    shells.table.put("registry.test/small", Image(("/bin/busybox", "sh", "-c"), root=str(tmp_path)))
    context = {"runAsUser": 1234, "runAsGroup": 2345}
    given = {
        "args": ["busybox id -u; busybox id -g; [ -t 0 ] && echo terminal"],
        "securityContext": context,
        "tty": True,
    }
    try:
        await shells.pod([{"image": "registry.test/small", **given}], restartPolicy="Never")
        await shells.until(lambda pod: pod.status.phase in ("Succeeded", "Failed"))
    finally:
        shells.table.remove("registry.test/small")
    assert (await shells.log()).split() == ["1234", "2345", "terminal"]


@needs_kubectl
async def test_exec_and_probes_run_in_the_sandbox(shells: Programs, kubectl: Kubectl) -> None:
    probe = {"exec": {"command": ["test", "-f", "/tmp/ready"]}, "periodSeconds": 1}
    hook = {"postStart": {"exec": {"command": ["touch", "/tmp/started"]}}}
    container = {"image": SHELL, "args": ["sleep 1000"], "readinessProbe": probe, "lifecycle": hook}
    await shells.pod([container])
    await shells.until(is_running)
    said = await kubectl("exec", "p", "--", "sh", "-c", "hostname; ls /tmp; ls -d /proc/[0-9]* | wc -l")
    assert said.split()[:2] == ["p", "started"]
    assert int(said.split()[-1]) < 12
    await kubectl("exec", "p", "--", "touch", "/tmp/ready")
    await shells.until(lambda pod: status(pod).ready)
    refused = "mount -o remount,rw /usr; echo x > /usr/new; umount /usr; echo $?"
    assert (await kubectl("exec", "p", "--", "sh", "-c", f"({refused}) 2>/dev/null")).strip() != "0"
    await kubectl("exec", "p", "--", "sh", "-c", "exit 7", fails=True)
    assert await kubectl("exec", "-i", "p", "--", "cat", given="hello") == "hello"
    assert "no-such" in await kubectl("exec", "p", "--", "no-such", fails=True)


@needs_kubectl
async def test_exec_into_a_container_of_another_user_has_no_privileges(shells: Programs, kubectl: Kubectl) -> None:
    context = {"runAsUser": 0 if os.geteuid() else 4321}
    await shells.pod([{"image": SHELL, "args": ["sleep 1000"], "securityContext": context}])
    await shells.until(is_running)
    said = await kubectl("exec", "p", "--", "sh", "-c", "id -u; grep CapEff /proc/self/status")
    assert said.split() == [str(context["runAsUser"]), "CapEff:", "0000000000000000"]


async def test_nothing_of_a_pod_outlives_its_first_process(shells: Programs) -> None:
    script = "setsid sleep 1234567 & sleep 0.2; ls /proc | grep -c '^[0-9]'; exit 0"
    await output(shells, script)
    found = [path for path in Path("/proc").glob("[0-9]*/cmdline") if _reads(path) == b"sleep\x001234567\x00"]
    assert not found


def _reads(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


async def test_a_python_program_of_this_machine_runs_in_the_sandbox(programs: Programs, tmp_path: Path) -> None:
    (tmp_path / "greeting.py").write_text("TEXT = 'hello'")
    program = "import greeting, os; print(greeting.TEXT, os.getcwd(), os.listdir('/tmp'))"
    image = programs.image(program, sandbox=True, env={"PYTHONPATH": str(tmp_path)})
    await programs.pod([{"image": image}], restartPolicy="Never")
    said = await programs.says("hello")
    assert said.startswith("hello / [")
    assert "kubewright" not in said


async def test_a_claim_keeps_its_data_until_it_is_deleted(shells: Programs) -> None:
    await shells.client.create(claim(shells, "data"))
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    mounts = [{"name": "data", "mountPath": "/data"}]
    assert await output(shells, "echo kept > /data/x", "one", volumes=volumes, volumeMounts=mounts) == ""
    assert await output(shells, "cat /data/x", "two", volumes=volumes, volumeMounts=mounts) == "kept\n"
    reading = [{"name": "data", "mountPath": "/data", "readOnly": True}]
    said = await output(shells, "echo x > /data/x || echo refused", "three", volumes=volumes, volumeMounts=reading)
    assert said.endswith("refused\n")
    bound = await shells.client.get(PersistentVolumeClaim, "data", namespace=shells.namespace)
    table = shells.cluster.config.image_table
    assert table is not None
    folder = table.parent / "volumes" / str(bound.spec.volume_name)
    assert (folder / "x").read_text() == "kept\n"
    for name in ("one", "two", "three"):
        await shells.client.delete(Pod, name, namespace=shells.namespace)
    await shells.client.delete(bound)

    async def removed() -> None:
        assert not folder.exists()

    await eventually(removed)


async def test_a_retained_volume_keeps_its_data(shells: Programs) -> None:
    keeping = StorageClass(
        metadata=ObjectMeta(name=f"{shells.namespace}-keeping"),
        provisioner="simulation.kubewright.dev",
        reclaim_policy="Retain",
        volume_binding_mode="WaitForFirstConsumer",
    )
    await shells.client.create(keeping)
    await shells.client.create(claim(shells, "data", storage_class_name=keeping.metadata.name))
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    mounts = [{"name": "data", "mountPath": "/data"}]
    assert await output(shells, "echo kept > /data/x", volumes=volumes, volumeMounts=mounts) == ""
    bound = await shells.client.get(PersistentVolumeClaim, "data", namespace=shells.namespace)
    table, volume = shells.cluster.config.image_table, str(bound.spec.volume_name)
    assert table is not None
    await shells.client.delete(Pod, "p", namespace=shells.namespace)
    await shells.client.delete(bound)
    await shells.client.wait_until_gone(PersistentVolumeClaim, "data", namespace=shells.namespace)
    await shells.client.delete(PersistentVolume, volume)
    await shells.client.wait_until_gone(PersistentVolume, volume)
    assert (table.parent / "volumes" / volume / "x").read_text() == "kept\n"
    await shells.client.delete(keeping)


def claim(shells: Programs, name: str, **spec: Any) -> PersistentVolumeClaim:
    document = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    made = codec.from_dict(PersistentVolumeClaim, {"spec": document})
    made.metadata = ObjectMeta(name=name, namespace=shells.namespace)
    made.spec.storage_class_name = spec.get("storage_class_name")
    return made


async def test_an_ephemeral_volume_has_a_claim_of_its_own(shells: Programs) -> None:
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}}
    volumes = [
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}},
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
    ]
    mounts = [{"name": each["name"], "mountPath": f"/{each['name']}"} for each in volumes]
    script = "echo x > /scratch/x && cat /scratch/x; stat -f -c %T /memory"
    assert await output(shells, script, volumes=volumes, volumeMounts=mounts) == "x\ntmpfs\n"


async def test_a_host_path_is_refused_unless_it_is_allowed(shells: Programs, tmp_path: Path) -> None:
    volume = {"name": "host", "hostPath": {"path": str(tmp_path), "type": "Directory"}}
    mounts = [{"name": "host", "mountPath": "/host"}]
    container = {"name": "c", "image": SHELL, "args": ["true"], "volumeMounts": mounts}
    await shells.pod([container], volumes=[volume])
    assert any("--allow-host-path" in each for each in await shells.events("FailedMount"))
    failed = await shells.until(lambda pod: pod.status.phase == "Failed")  # `kubectl debug node/...` ends, too
    assert failed.status.reason == "FailedMount"
    state = status(failed).state
    assert state is not None
    assert state.terminated is not None
    assert "--allow-host-path" in (state.terminated.message or "")
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [container], "volumes": [volume]}}
    spec = {"selector": {"matchLabels": {"app": "a"}}, "template": template}
    replicas = codec.from_dict(ReplicaSet, {"spec": spec})
    replicas.metadata = ObjectMeta(name="many", namespace=shells.namespace)
    await shells.client.create(replicas)  # its Pods wait: it would replace them at once

    async def waits() -> None:
        listed = await shells.client.list(Pod, namespace=shells.namespace, labels={"app": "a"})
        assert len(listed.items) == 1
        [pod] = listed.items
        assert pod.status.container_statuses
        waiting = (status(pod).state or ContainerState()).waiting
        assert "--allow-host-path" in (waiting.message if waiting is not None and waiting.message else "")

    await eventually(waits)


async def test_allowed_host_paths_follow_their_types(tmp_path: Path) -> None:
    (tmp_path / "allowed").mkdir()
    (tmp_path / "allowed/out").symlink_to(tmp_path)
    images = {SHELL: Image(("/bin/sh", "-c"))}
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(Environment(images=images, host_paths=[tmp_path / "allowed"]))
        namespace = await stack.enter_async_context(cluster.namespace())
        shells = Programs(cluster, namespace)
        paths = [("made/here", "DirectoryOrCreate"), ("file", "FileOrCreate")]
        volumes = [
            {"name": f"v{number}", "hostPath": {"path": f"{tmp_path}/allowed/{path}", "type": kind}}
            for number, (path, kind) in enumerate(paths)
        ]
        mounts = [{"name": each["name"], "mountPath": f"/{each['name']}"} for each in volumes]
        assert await output(shells, "echo x > /v0/x; echo y > /v1", volumes=volumes, volumeMounts=mounts) == ""
        assert (tmp_path / "allowed/made/here/x").read_text() == "x\n"
        assert (tmp_path / "allowed/file").read_text() == "y\n"
        for path, kind, message in (("out", "", "may not use"), ("absent", "Directory", "is not a directory")):
            volume = {"name": "host", "hostPath": {"path": f"{tmp_path}/allowed/{path}", "type": kind}}
            mount = [{"name": "host", "mountPath": "/host"}]
            pod = [{"image": SHELL, "args": ["true"], "volumeMounts": mount}]
            await shells.pod(pod, volumes=[volume], name=path)
            await shells.until(partial(_says, message), path)


def _says(message: str, pod: Pod) -> bool:
    """Return whether the state of the container contains a message."""
    return message in str(status(pod).state)


async def test_a_group_owns_the_volumes_and_reads_its_token(shells: Programs) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files to a group")
    script = """
        id -u; id -G; stat -c %g /data; echo x > /data/x && stat -c %u:%g /data/x
        cd /var/run/secrets/kubernetes.io/serviceaccount && test -n "$(cat token)" && stat -L -c %a:%u:%g token
        echo out > /dev/stdout
    """
    said = await output(
        shells,
        script,
        securityContext={"runAsUser": 1234, "runAsGroup": 2345, "fsGroup": 3456, "supplementalGroups": [4567]},
        volumes=[{"name": "data", "emptyDir": {}}],
        volumeMounts=[{"name": "data", "mountPath": "/data"}],
    )
    user, groups, *rest = said.splitlines()
    assert user == "1234"
    assert sorted(groups.split()) == ["2345", "3456", "4567"]
    assert rest == ["3456", "1234:3456", "640:1234:3456", "out"]


async def test_a_group_gets_only_the_volumes_of_its_pod(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files to a group")
    mine, other = tmp_path / "mine", tmp_path / "other"
    mine.mkdir(mode=0o755)
    other.mkdir(mode=0o700)
    path = {"hostPath": {"path": str(mine)}}
    node = {"key": "kubernetes.io/hostname", "operator": "Exists"}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [node]}]}}
    local = {"local": {"path": str(mine)}, "nodeAffinity": affinity}
    images = {SHELL: Image(("/bin/sh", "-c"))}
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(Environment(images=images, host_paths=[tmp_path]))
        namespace = await stack.enter_async_context(cluster.namespace())
        shells = Programs(cluster, namespace)
        for name, source, group in (("path", path, 0), ("local", local, 3456)):
            capacity = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
            document = {"metadata": {"name": name}, "spec": {**capacity, **source, "storageClassName": ""}}
            await cluster.client.create(codec.from_dict(PersistentVolume, document))
            wanted = claim(shells, name, storage_class_name="")
            wanted.spec.volume_name = name
            await cluster.client.create(wanted)
            volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
            mounts = [{"name": "data", "mountPath": "/data"}]
            context = {"fsGroup": 3456}
            said = await output(
                shells, "stat -c %g /data", name, volumes=volumes, volumeMounts=mounts, securityContext=context
            )
            assert said == f"{group}\n"
        assert (other.stat().st_gid, other.stat().st_mode & 0o777) == (0, 0o700)
        assert tmp_path.stat().st_gid == 0


async def test_a_restricted_python_program_runs_as_its_user(programs: Programs) -> None:
    program = "import os; print('user', os.getuid())"
    programs.table.put(f"{SHELL}:python", Image((sys.executable, "-c", program)))
    restricted = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    await programs.pod(
        [{"image": f"{SHELL}:python", "securityContext": restricted}],
        restartPolicy="Never",
        securityContext={"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    )
    said = await programs.says("user")
    programs.table.remove(f"{SHELL}:python")
    assert said.split() == ["user", str(os.geteuid() or 65532)]


async def test_containers_share_their_processes_on_request(shells: Programs) -> None:
    script = "until cat /proc/*/comm | grep -q tail; do sleep 0.1; done; ls /proc/1/root/; echo seen; sleep 1000"
    await shells.pod(
        [{"image": SHELL, "args": [script]}, {"image": SHELL, "args": ["exec tail -f /dev/null"]}],
        shareProcessNamespace=True,
    )
    assert "home" not in (await shells.says("seen")).split()


@needs_kubectl
async def test_a_debug_container_sees_the_processes_of_its_target(shells: Programs, kubectl: Kubectl) -> None:
    await shells.pod([{"image": SHELL, "args": ["sleep 1234"]}])
    await shells.until(is_running)
    look = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; echo looked; sleep 1000"
    options = (f"--image={SHELL}", "--profile=general", "--arguments-only")
    await kubectl("debug", "p", "--target=c0", "-c", "seeing", *options, "--", look)
    await kubectl("debug", "p", "-c", "alone", *options, "--", look)

    async def seen(container: str) -> str:
        said = await shells.log(f"container={container}")
        assert "looked\n" in said
        return said

    assert "sleep 1234" in await eventually(seen, "seeing")
    assert "sleep 1234" not in await eventually(seen, "alone")


@needs_kubectl
async def test_exec_enters_a_pod_with_shared_processes(shells: Programs, kubectl: Kubectl) -> None:
    await shells.pod(
        [{"image": SHELL, "args": ["exec tail -f /dev/null"]}, {"image": SHELL, "args": ["sleep 1000"]}],
        shareProcessNamespace=True,
    )
    await shells.until(is_running)
    seen = await kubectl("exec", "p", "-c", "c1", "--", "sh", "-c", "cat /proc/*/comm; hostname; touch /tmp/c1")
    assert {"tail", "sleep", "p"} <= set(seen.split())
    assert "c1" not in await kubectl("exec", "p", "-c", "c0", "--", "ls", "/tmp")
    await kubectl("delete", "pod", "p", "--grace-period=1")


async def test_a_pod_in_the_host_network_has_the_name_of_the_host(shells: Programs) -> None:
    said = await output(shells, "hostname; cat /etc/resolv.conf; head -1 /etc/hosts", hostNetwork=True, hostPID=True)
    assert said.endswith("# Kubernetes-managed hosts file (host network).\n")
    machine = Path("/etc/resolv.conf")
    assert said.splitlines()[0] == socket.gethostname()
    assert ("nameserver" in said) == (machine.is_file() and "nameserver" in machine.read_text())


async def test_the_dns_configuration_of_a_pod_is_followed(shells: Programs) -> None:
    config = {
        "nameservers": ["192.0.2.1"],
        "searches": ["a.test", "b.test"],
        "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}],
    }
    said = await output(shells, "cat /etc/resolv.conf", dnsPolicy="None", dnsConfig=config)
    assert said == "nameserver 192.0.2.1\nsearch a.test b.test\noptions ndots:2 edns0\n"


async def test_a_claim_outlives_the_control_plane(tmp_path: Path) -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    mounts = [{"name": "data", "mountPath": "/data"}]
    images = {SHELL: Image(("/bin/sh", "-c"))}
    for name, script, expected in (("one", "echo kept > /data/x", ""), ("two", "cat /data/x; ls -A /root", "kept\n")):
        async with Environment(server=ServerOptions(data=tmp_path / "data"), images=images) as cluster:
            shells = Programs(cluster, "default")
            if name == "one":
                await eventually(cluster.client.get, ServiceAccount, "default", namespace="default")
                await eventually(cluster.client.get, StorageClass, "standard")  # claims get it as the default
                await shells.client.create(claim(shells, "data"))
            assert await output(shells, script, name, volumes=volumes, volumeMounts=mounts) == expected


async def test_the_data_of_the_control_plane_is_not_visible(tmp_path: Path) -> None:
    data = tmp_path / "data"
    images = {SHELL: Image(("/bin/sh", "-c"), folders=(str(tmp_path),))}
    async with Environment(server=ServerOptions(data=data), images=images) as cluster:
        shells = Programs(cluster, "default")
        await eventually(cluster.client.get, ServiceAccount, "default", namespace="default")
        kubeconfig = cluster.kubeconfig()
        said = await output(shells, f"ls {tmp_path}; ls -A {data}; cat {kubeconfig} 2>/dev/null || echo hidden")
    assert said == "data\nhidden\n"


async def test_nothing_of_a_pod_outlives_a_killed_control_plane(tmp_path: Path) -> None:
    with up(tmp_path) as started:
        async with cluster_of(started) as cluster:
            shells = Programs(cluster, "default")
            shells.table.put(SHELL, Image(("/bin/sh", "-c")))
            await shells.pod([{"image": SHELL, "args": ["setsid sleep 7654321 & echo up; sleep 7654321"]}])
            await shells.says("up")
        started.end(signal.SIGKILL)

    async def ended() -> None:
        assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if b"7654321" in _reads(path)]

    await eventually(ended)


LISTEN = """
import os, socket, sys, threading, time, urllib.request
def listen(family, host, port):
    listener = socket.socket(family)
    listener.bind((host, port))
    listener.listen()
    print(listener.getsockname()[0], flush=True)
    return listener
six, four = listen(socket.AF_INET6, "::", 8321), listen(socket.AF_INET, "0.0.0.0", 8322)
datagrams = socket.socket(type=socket.SOCK_DGRAM)
datagrams.bind(("", 8321))
print(datagrams.getsockname()[0])
print(socket.create_connection(("localhost", 8322)).getpeername()[0])
print(four.accept()[1][0], flush=True)
while True:
    accepted, address = six.accept()
    print("from", address[0], flush=True)
    accepted.close()
"""
CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], 8321)); print('connected')"


async def test_a_program_that_binds_all_interfaces_gets_the_address_of_its_pod(programs: Programs) -> None:
    image = programs.image(LISTEN, sandbox=True)
    for name in ("one", "two"):
        await programs.pod([{"image": image}], name=name)
    pods = [await programs.until(is_running, name) for name in ("one", "two")]
    one, two = (pod.status.pod_ip or "" for pod in pods)
    for name, address in (("one", one), ("two", two)):
        said = await programs.says(f"{address}\n{address}\n{address}\n{address}\n", name)
        assert said.startswith(f"::ffff:{address}\n{address}\n"), said
    await programs.pod(
        [{"image": programs.image(CONNECT, sandbox=True), "args": [one]}], "three", restartPolicy="Never"
    )
    three = await programs.until(lambda pod: pod.status.phase == "Succeeded", "three")
    await programs.says(f"from ::ffff:{three.status.pod_ip}\n", "one")


@needs_kubectl
async def test_exec_reaches_a_program_of_its_pod_at_localhost(programs: Programs, kubectl: Kubectl) -> None:
    image = programs.image(LISTEN, sandbox=True)
    await programs.pod([{"image": image}])
    pod = await programs.until(is_running)
    await programs.says(f"{pod.status.pod_ip}\n{pod.status.pod_ip}\n")
    said = await kubectl("exec", "p", "--", sys.executable, "-S", "-c", CONNECT, "localhost")
    assert said.splitlines() == ["connected"]
    await programs.says(f"from ::ffff:{pod.status.pod_ip}\n")


async def test_a_machine_without_bubblewrap_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    environment = Environment(images={SHELL: Image(("/bin/sh", "-c"))})
    async with environment as cluster, cluster.namespace() as namespace:
        shells = Programs(cluster, namespace)
        assert await output(shells, "echo ran") == "ran\n"
        assert any("install the package bubblewrap" in each for each in await shells.events("NoSandbox"))
        assert "bubblewrap" in (await environment.reason_without_sandbox() or "")
