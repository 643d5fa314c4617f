"""The Widget operator, whose author promises that one pass is enough: `python onepass.py --kubeconfig ...`."""

from benchmarks.peers.kubewright import widgets
from kubewright import Manager, controller
from kubewright.apis.core.v1 import ConfigMap

if __name__ == "__main__":
    reconcile = controller(widgets.Widget, owns=[ConfigMap], one_pass=True)(widgets.reconcile.reconcile)
    Manager(controllers=[reconcile]).main()
