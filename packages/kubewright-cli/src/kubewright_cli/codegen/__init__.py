"""Python from CustomResourceDefinitions: the way back of `models.crd`, for the kinds of others, and a client for ours.

module    a module for each group version      fields    a schema as a field of a class
markers   keywords of a schema as markers      names     names in Python
layout    code, laid out as a formatter would
package   modules with a clientset and informers, as a package of its own
"""

from kubewright_cli.codegen.module import HEADER as HEADER
from kubewright_cli.codegen.module import modules as modules
