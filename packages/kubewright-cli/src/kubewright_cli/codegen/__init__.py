"""Python from CustomResourceDefinitions: the reverse of `models.crd`, for third-party CRDs and client packages.

module    a module for each group version      fields    a schema as a field of a class
markers   keywords of a schema as markers      names     names in Python
layout    formatted code
package   modules with a clientset and informers, as a separate package
"""

from kubewright_cli.codegen.module import HEADER as HEADER
from kubewright_cli.codegen.module import modules as modules
