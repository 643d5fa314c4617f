"""Admission webhooks of a Service, whose Pod is a process: the API server finds it through the Service."""

from __future__ import annotations

import base64
from pathlib import Path

from integration.programs import Programs, is_ready
from integration.programs import programs as programs
from kubewright import ObjectMeta
from kubewright.apis.admissionregistration.v1 import ValidatingWebhookConfiguration
from kubewright.apis.core.v1 import ConfigMap, Service
from kubewright.machinery.errors import APIError
from kubewright.models import codec
from kubewright.testing import eventually
from kubewright_controlplane.apiserver.pki import CertificateAuthority

WEBHOOK = """
import json, os, ssl
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        review = json.loads(self.rfile.read(int(self.headers["content-length"])))
        name = review["request"]["name"]
        response = {"uid": review["request"]["uid"], "allowed": name != "bad", "status": {"message": "bad name"}}
        body = json.dumps({**review, "request": None, "response": response}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(os.environ["CERTIFICATE"])
server = ThreadingHTTPServer((os.environ["KUBEWRIGHT_BIND_HOST"], 9443), Handler)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""


async def test_a_webhook_in_a_pod_is_called_through_its_service(programs: Programs, tmp_path: Path) -> None:
    namespace, client = programs.namespace, programs.client
    authority = CertificateAuthority.create()
    pair = authority.issue_server([f"hook.{namespace}.svc"])
    certificate = tmp_path / "tls.pem"
    certificate.write_bytes(pair.key + pair.certificate)
    await programs.pod(
        [
            {
                "image": programs.image(WEBHOOK, env={"CERTIFICATE": str(certificate)}),
                "ports": [{"containerPort": 9443}],
                "readinessProbe": {"tcpSocket": {"port": 9443}, "periodSeconds": 1},
            }
        ]
    )
    pod = await programs.until(is_ready)
    pod.metadata.labels["app"] = "hook"
    await client.update(pod)
    spec = {"selector": {"app": "hook"}, "ports": [{"port": 443, "targetPort": 9443}]}
    service = codec.from_dict(Service, {"spec": spec})
    service.metadata = ObjectMeta(name="hook", namespace=namespace)
    await client.create(service)
    configuration = codec.from_dict(
        ValidatingWebhookConfiguration,
        {
            "metadata": {"name": namespace},
            "webhooks": [
                {
                    "name": "hook.example.com",
                    "clientConfig": {
                        "service": {"name": "hook", "namespace": namespace, "path": "/check"},
                        "caBundle": base64.b64encode(authority.certificate).decode(),
                    },
                    "rules": [
                        {
                            "operations": ["CREATE"],
                            "apiGroups": [""],
                            "apiVersions": ["v1"],
                            "resources": ["configmaps"],
                        }
                    ],
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                    "sideEffects": "None",
                    "admissionReviewVersions": ["v1"],
                }
            ],
        },
    )
    await client.create(configuration)

    async def refusal() -> str:
        try:
            await client.create(ConfigMap(metadata=ObjectMeta(name="bad", namespace=namespace)))
        except APIError as error:
            return str(error)
        return ""

    async def is_denied() -> None:
        assert await refusal() == 'admission webhook "hook.example.com" denied the request: bad name'

    await eventually(is_denied)
    await client.create(ConfigMap(metadata=ObjectMeta(name="good", namespace=namespace)))
    await client.delete(configuration)
