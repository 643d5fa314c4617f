"""The operator: its controllers and its Manager. `kubewright run --help` lists its flags."""

from kubewright import Manager

from etcd_operator import metrics
from etcd_operator.controller import etcdbackup, etcdbackupschedule, etcdcluster, etcdrestore

manager = Manager(
    controllers=[
        etcdcluster.reconcile,
        etcdbackup.reconcile,
        etcdbackupschedule.reconcile,
        etcdrestore.reconcile,
    ],
    name="etcd-operator",
)
metrics.register(manager)

if __name__ == "__main__":
    manager.main()
