"""The program: `python -m webserver_operator.main`, or `kubewright run`."""

from kubewright import Manager
from webserver_operator.controller import reconcile

manager = Manager(controllers=[reconcile], name="webserver-operator")

if __name__ == "__main__":
    manager.main()
