#!/bin/sh
# The WebServer operator, from an empty folder to an operator that is deployed, and gone again.
#
#     webserver.sh [local]
#
# Runs in an empty folder `webserver-operator`, with kubewright and kubectl on the PATH. It starts a control plane of its own
# unless KUBECONFIG leads to one; `local` ends before the operator is deployed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)

say() { printf '\n== %s\n' "$*"; }
until_true() { until "$@" >/dev/null 2>&1; do sleep 0.1; done; }
stop() { if kill "$1" 2>/dev/null; then wait "$1" || [ $? -le 143 ]; fi; }
cleanup() { for process in ${operator:-} ${cluster:-}; do stop "$process"; done; }
trap cleanup EXIT

say A project, and a kind
kubewright init --domain my.domain
kubewright create api --version v1 --kind WebServer

say What a WebServer is, and what is done for it
cp "$here/api.py" src/webserver_operator/api/v1/webserver.py
cp "$here/controller.py" src/webserver_operator/controller/webserver.py
make manifests
make test

if [ -z "${KUBECONFIG:-}" ]; then
    say A control plane
    kubewright up &
    cluster=$!
    export KUBECONFIG="$PWD/.kubewright/kubeconfig"
    until_true kubectl get --raw /readyz
fi

say The operator on this machine
make install
make run ARGS='--health-probe-bind-address=0 --metrics-bind-address=0' &
operator=$!

say Three replicas
cat > config/samples/my_v1_webserver.yaml <<SAMPLE
apiVersion: my.domain/v1
kind: WebServer
metadata:
  name: webserver-sample
spec:
  replicas: 3
  image: nginx:1.23.1
SAMPLE
kubectl apply -f config/samples/my_v1_webserver.yaml
kubectl wait webserver/webserver-sample --for=condition=Ready --timeout=60s
kubectl get webservers,deployments,services
test "$(kubectl get deployment webserver-sample -o 'jsonpath={.status.availableReplicas}')" = 3

say A fourth
kubectl patch webserver webserver-sample --type=merge -p '{"spec": {"replicas": 4}}'
kubectl wait webserver/webserver-sample --for='jsonpath={.status.availableReplicas}=4' --timeout=60s

say Another image: a rolling upgrade
kubectl patch webserver webserver-sample --type=merge -p '{"spec": {"image": "nginx:1.23.0"}}'
kubectl wait deployment/webserver-sample --for='jsonpath={.spec.template.spec.containers[0].image}=nginx:1.23.0' --timeout=60s
kubectl rollout status deployment/webserver-sample --timeout=60s
test "$(kubectl get replicasets -l webserver_cr=webserver-sample --no-headers | wc -l)" -eq 2

say A Service that is lost comes back
kubectl delete service webserver-sample-service
until_true kubectl get service webserver-sample-service

say All of it goes
kubectl delete webserver webserver-sample
kubectl wait deployment/webserver-sample service/webserver-sample-service --for=delete --timeout=60s

stop "$operator"
if [ "${1:-}" = local ]; then
    make uninstall
    exit
fi

say The operator in a Pod of its own
make deploy IMG=webserver-operator:v1
ours() { kubectl --namespace webserver-operator-system "$@"; }
ours get deployments,pods,services,leases
kubectl apply -f config/samples/my_v1_webserver.yaml
kubectl wait webserver/webserver-sample --for=condition=Ready --timeout=60s
kubewright status
kubewright doctor
kubewright logs --tail 5

say It is killed, and comes back
holder() { ours get lease webserver-operator -o 'jsonpath={.spec.holderIdentity}'; }
before=$(holder)
leads_anew() { now=$(holder) && [ -n "$now" ] && [ "$now" != "$before" ]; }
ours delete pod --all --grace-period=0 --force
until_true leads_anew
kubectl patch webserver webserver-sample --type=merge -p '{"spec": {"replicas": 2}}'
kubectl wait webserver/webserver-sample --for='jsonpath={.status.availableReplicas}=2' --timeout=60s

say A second deploy changes nothing
make deploy IMG=webserver-operator:v1

say The cluster as it was
make undeploy
until_true sh -c '! kubectl get namespace webserver-operator-system'
! kubectl get crd webservers.my.domain
