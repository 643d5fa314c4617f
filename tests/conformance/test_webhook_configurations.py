"""Configurations of admission webhooks: defaults and faults."""

from __future__ import annotations

from conformance.hooks import GROUP, Hooks, Object
from conformance.rawapi import API


async def test_the_defaults_of_a_configuration(api: API, hooks: Hooks) -> None:
    path, name = f"{GROUP}/mutatingwebhookconfigurations", f"defaults-{hooks.namespace}"
    webhook = {
        "name": "a.example.com",
        "clientConfig": {"service": {"name": "s", "namespace": "nowhere"}},
        "rules": [
            {"operations": ["CREATE"], "apiGroups": ["none.example.com"], "apiVersions": ["v1"], "resources": ["x"]}
        ],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    made = (await api.post(path, {"metadata": {"name": name}, "webhooks": [webhook]})).expect(201).json
    assert made["metadata"]["generation"] == 1
    assert made["webhooks"] == [
        {
            "name": "a.example.com",
            "clientConfig": {"service": {"name": "s", "namespace": "nowhere", "port": 443}},
            "rules": [{**webhook["rules"][0], "scope": "*"}],
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {},
            "sideEffects": "None",
            "timeoutSeconds": 10,
            "admissionReviewVersions": ["v1"],
            "reinvocationPolicy": "Never",
        }
    ]
    again = (await api.patch(f"{path}/{name}", {"metadata": {"labels": {"a": "b"}}})).expect(200).json
    assert again["metadata"]["generation"] == 1
    unconditional = {"metadata": {"name": name}, "webhooks": [webhook]}
    answer = (await api.put(f"{path}/{name}", unconditional)).expect(422)
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in answer.message
    (await api.delete(f"{path}/{name}")).expect(200)


async def test_the_faults_of_a_configuration(api: API) -> None:
    ok = {"sideEffects": "None", "admissionReviewVersions": ["v1"], "clientConfig": {"url": "https://a/"}}
    webhooks: list[Object] = [
        {
            "name": "short",
            "failurePolicy": "X",
            "matchPolicy": "Y",
            "sideEffects": "Some",
            "timeoutSeconds": 31,
            "reinvocationPolicy": "Z",
            "clientConfig": {"url": "http://u:p@a/?q#f"},
            "admissionReviewVersions": ["v1", "v1", "No"],
            "rules": [
                {
                    "operations": ["CREATE", "*", "FOO"],
                    "apiGroups": ["*", "a"],
                    "apiVersions": ["", "*"],
                    "resources": ["pods/*", "pods/x", "*/y", "a/y", "*/*", ""],
                    "scope": "Q",
                },
                {"resources": ["*", "pods"]},
            ],
            "matchConditions": [
                {"name": "a", "expression": "x"},
                {"name": "a", "expression": "1"},
                {"name": "a b", "expression": " "},
                {"name": "dyn", "expression": "object.x"},
            ],
            "namespaceSelector": {"matchLabels": {"a b": "c"}},
            "objectSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]},
        },
        {},
        {**ok, "name": "a.example.com", "clientConfig": {"service": {"name": "s", "path": "x//Y/", "port": 70000}}},
        {**ok, "name": "a.example.com", "clientConfig": {"url": "https://a", "service": {"name": "s"}}},
        {**ok, "name": "b.example.com", "admissionReviewVersions": ["v9"], "clientConfig": {"url": "https://a:x/"}},
        {**ok, "name": "c.example.com", "clientConfig": {"url": "https:///x"}, "timeoutSeconds": 0},
        {**ok, "name": "Not.A.Name"},
    ]  # fmt: skip
    body = {"metadata": {"name": "faults"}, "webhooks": webhooks}
    answer = (await api.post(f"{GROUP}/mutatingwebhookconfigurations", body)).expect(422)
    assert [(field, text) for _, field, text in answer.causes] == CONFIGURATION_FAULTS


CONFIGURATION_FAULTS: list[tuple[str, str]] = [
    (
        "webhooks[0].name",
        'Invalid value: "short": should be a domain with at least three segments separated by dots',
    ),
    (
        "webhooks[0].rules[0].operations",
        'Invalid value: ["CREATE","*","FOO"]: if \'*\' is present, must not specify other operations',
    ),
    (
        "webhooks[0].rules[0].operations[2]",
        'Unsupported value: "FOO": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE"',
    ),
    (
        "webhooks[0].rules[0].apiGroups",
        'Invalid value: ["*","a"]: if \'*\' is present, must not specify other API groups',
    ),
    (
        "webhooks[0].rules[0].apiVersions",
        'Invalid value: ["","*"]: if \'*\' is present, must not specify other API versions',
    ),
    (
        "webhooks[0].rules[0].apiVersions[0]",
        "Required value",
    ),
    (
        "webhooks[0].rules[0].resources[1]",
        "Invalid value: \"pods/x\": if 'pods/*' is present, must not specify pods/x",
    ),
    (
        "webhooks[0].rules[0].resources[3]",
        "Invalid value: \"a/y\": if '*/y' is present, must not specify a/y",
    ),
    (
        "webhooks[0].rules[0].resources[5]",
        "Required value",
    ),
    (
        "webhooks[0].rules[0].resources",
        'Invalid value: ["pods/*","pods/x","*/y","a/y","*/*",""]: if \'*/*\' is present, must not '
        "specify other resources",
    ),
    (
        "webhooks[0].rules[0].scope",
        'Unsupported value: "Q": supported values: "*", "Cluster", "Namespaced"',
    ),
    (
        "webhooks[0].rules[1].operations",
        "Required value",
    ),
    (
        "webhooks[0].rules[1].apiGroups",
        "Required value",
    ),
    (
        "webhooks[0].rules[1].apiVersions",
        "Required value",
    ),
    (
        "webhooks[0].rules[1].resources",
        'Invalid value: ["*","pods"]: if \'*\' is present, must not specify other resources without subresources',
    ),
    (
        "webhooks[0].failurePolicy",
        'Unsupported value: "X": supported values: "Fail", "Ignore"',
    ),
    (
        "webhooks[0].matchPolicy",
        'Unsupported value: "Y": supported values: "Equivalent", "Exact"',
    ),
    (
        "webhooks[0].sideEffects",
        'Unsupported value: "Some": supported values: "None", "NoneOnDryRun"',
    ),
    (
        "webhooks[0].timeoutSeconds",
        "Invalid value: 31: the timeout value must be between 1 and 30 seconds",
    ),
    (
        "webhooks[0].namespaceSelector.matchLabels",
        "Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or "
        "'.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  "
        "or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
    ),
    (
        "webhooks[0].objectSelector.matchExpressions[0].values",
        "Required value: must be specified when `operator` is 'In' or 'NotIn'",
    ),
    (
        "webhooks[0].reinvocationPolicy",
        'Unsupported value: "Z": supported values: "IfNeeded", "Never"',
    ),
    (
        "webhooks[0].clientConfig.url",
        "Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]",
    ),
    (
        "webhooks[0].clientConfig.url",
        'Invalid value: "u:p": user information is not permitted in the URL',
    ),
    (
        "webhooks[0].clientConfig.url",
        'Invalid value: "f": fragments are not permitted in the URL',
    ),
    (
        "webhooks[0].clientConfig.url",
        'Invalid value: "q": query parameters are not permitted in the URL',
    ),
    (
        "webhooks[0].matchConditions[0].expression",
        "Invalid value: \"x\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'x' "
        "(in container '')\n | x\n | ^",
    ),
    (
        "webhooks[0].matchConditions[1].expression",
        'Invalid value: "1": must evaluate to bool but got int',
    ),
    (
        "webhooks[0].matchConditions[1].name",
        'Duplicate value: "a"',
    ),
    (
        "webhooks[0].matchConditions[2].expression",
        "Required value",
    ),
    (
        "webhooks[0].matchConditions[2].name",
        "Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or "
        "'.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  "
        "or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
    ),
    (
        "webhooks[0].matchConditions[3].expression",
        'Invalid value: "object.x": must evaluate to bool but got dyn',
    ),
    (
        "webhooks[0].admissionReviewVersions[1]",
        'Invalid value: "v1": duplicate version',
    ),
    (
        "webhooks[0].admissionReviewVersions[2]",
        'Invalid value: "No": a DNS-1035 label must consist of lower case alphanumeric characters or '
        "'-', start with an alphabetic character, and end with an alphanumeric character (e.g. "
        "'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
    ),
    (
        "webhooks[1].name",
        "Required value",
    ),
    (
        "webhooks[1].sideEffects",
        "Required value: must specify one of None, NoneOnDryRun",
    ),
    (
        "webhooks[1].clientConfig",
        "Required value: exactly one of url or service is required",
    ),
    (
        "webhooks[1].admissionReviewVersions",
        "Required value: must specify one of v1, v1beta1",
    ),
    (
        "webhooks[2].clientConfig.service.name",
        "Required value",
    ),
    (
        "webhooks[2].clientConfig.service.port",
        "Invalid value: 70000: port is not valid: must be between 1 and 65535, inclusive",
    ),
    (
        "webhooks[2].clientConfig.service.path",
        "Invalid value: \"x//Y/\": must start with a '/'",
    ),
    (
        "webhooks[2].clientConfig.service.path",
        'Invalid value: "x//Y/": segment[0] may not be empty',
    ),
    (
        "webhooks[2].clientConfig.service.path",
        'Invalid value: "x//Y/": segment[1] may not be empty',
    ),
    (
        "webhooks[2].clientConfig.service.path",
        'Invalid value: "x//Y/": segment[2]: a lowercase RFC 1123 subdomain must consist of lower '
        "case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric "
        "character (e.g. 'example.com', regex used for validation is "
        "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
    ),
    (
        "webhooks[3].clientConfig",
        "Required value: exactly one of url or service is required",
    ),
    (
        "webhooks[3].name",
        'Duplicate value: "a.example.com"',
    ),
    (
        "webhooks[4].clientConfig.url",
        'Required value: url must be a valid URL: parse "https://a:x/": invalid port ":x" after '
        "host; desired format: https://host[/path]",
    ),
    (
        "webhooks[4].admissionReviewVersions",
        'Invalid value: ["v9"]: must include at least one of v1, v1beta1',
    ),
    (
        "webhooks[5].timeoutSeconds",
        "Invalid value: 0: the timeout value must be between 1 and 30 seconds",
    ),
    (
        "webhooks[5].clientConfig.url",
        'Invalid value: "": host must be specified; desired format: https://host[/path]',
    ),
    (
        "webhooks[6].name",
        'Invalid value: "Not.A.Name": a lowercase RFC 1123 subdomain must consist of lower case '
        "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character "
        "(e.g. 'example.com', regex used for validation is "
        "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
    ),
]
