"""KUDO's packages: operators that are data.

Package          the files of a package; `Package.load` reads a folder or an archive
parameter_values the values in a YAML file of parameters
verify           what is wrong with a package: `Finding`s with file, line and field
resources        the Operator, OperatorVersion and Instance of a package
Operator, OperatorVersion, Instance   the kinds of KUDO
package_manager  the operator that runs any number of packages; `admit_instance` is its webhook
Target           where `install`, `upgrade`, `update`, `trigger` and `uninstall` write; each returns `Change`s
"""

from kubewright.machinery.errors import PackageError as PackageError
from kubewright.packages._api import Instance as Instance
from kubewright.packages._api import Operator as Operator
from kubewright.packages._api import OperatorVersion as OperatorVersion
from kubewright.packages._files import Package as Package
from kubewright.packages._finding import Finding as Finding
from kubewright.packages._installation import Change as Change
from kubewright.packages._installation import Target as Target
from kubewright.packages._installation import install as install
from kubewright.packages._installation import trigger as trigger
from kubewright.packages._installation import uninstall as uninstall
from kubewright.packages._installation import update as update
from kubewright.packages._installation import upgrade as upgrade
from kubewright.packages._operator import package_manager as package_manager
from kubewright.packages._resources import Resources as Resources
from kubewright.packages._resources import resources as resources
from kubewright.packages._tasks import parameter_values as parameter_values
from kubewright.packages._texts import CHECKS as PARAMETER_CHECKS
from kubewright.packages._verification import verify as verify
from kubewright.packages._webhook import admit_instance as admit_instance

__all__ = [
    "PARAMETER_CHECKS",
    "Change",
    "Finding",
    "Instance",
    "Operator",
    "OperatorVersion",
    "Package",
    "PackageError",
    "Resources",
    "Target",
    "admit_instance",
    "install",
    "package_manager",
    "parameter_values",
    "resources",
    "trigger",
    "uninstall",
    "update",
    "upgrade",
    "verify",
]
