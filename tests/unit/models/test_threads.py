"""Objects can be decoded in several threads at the same time, for example with a control plane in another thread."""

import subprocess
import sys

PROGRAM = """
import sys, threading
from kubewright.apis.apps.v1 import DaemonSet, Deployment, ReplicaSet, StatefulSet
from kubewright.models import codec

sys.setswitchinterval(1e-6)
template = b'{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","ports":[{"containerPort":80}]}]}}'
document = b'{"metadata":{"name":"n"},"spec":{"selector":{},"template":' + template + b'}}'
kinds = [DaemonSet, Deployment, ReplicaSet, StatefulSet]
start = threading.Barrier(len(kinds))
read = []

def go(kind):
    start.wait()
    read.append(codec.decode(kind, document).spec.template.spec.containers[0].name)

threads = [threading.Thread(target=go, args=(kind,)) for kind in kinds]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(read)
"""


def test_kinds_that_share_types_can_be_first_decoded_in_many_threads() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "['c', 'c', 'c', 'c']\n"), done.stderr
