"""A rule that needs no code: the API server evaluates it itself, also while the operator is down."""

from kubewright.policies import ValidatingPolicy, Validation

from webfarm_operator.api.v1.webserver import WebServer

load_balancers = ValidatingPolicy(
    "load-balancers",
    WebServer,
    variables={"allowed": "namespaceObject.metadata.?labels[?'load-balancers'].orValue('') == 'allowed'"},
    validations=[
        Validation(
            "object.spec.service.type != 'LoadBalancer' || variables.allowed",
            message="load balancers cost money; label the namespace load-balancers=allowed, or use the type NodePort",
            reason="Forbidden",
        )
    ],
)
