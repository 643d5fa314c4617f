{{/* Made by `kubewright generate chart`, which writes it anew: change nothing here. */}}

{{/* What the operator is called. */}}
{{- define "chart.name" -}}
{{- default $.Chart.Name $.Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* How the names of its objects begin: the release, and the operator where the release does not say it already. */}}
{{- define "chart.fullname" -}}
{{- $name := include "chart.name" $ }}
{{- if $.Values.fullnameOverride }}
{{- $.Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains $name $.Release.Name }}
{{- $.Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" $.Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* The name of an object: (dict "suffix" "manager-role" "context" $). 63 characters at most, of which the suffix stays whole. */}}
{{- define "chart.resourceName" -}}
{{- $room := sub 62 (len .suffix) | int }}
{{- printf "%s-%s" (include "chart.fullname" .context | trunc $room | trimSuffix "-") .suffix }}
{{- end }}

{{/* The labels by which the manager's Pods are found. */}}
{{- define "chart.selectorLabels" -}}
app.kubernetes.io/name: {{ include "chart.name" $ | quote }}
app.kubernetes.io/instance: {{ $.Release.Name | quote }}
control-plane: controller-manager
{{- end }}

{{/* The labels of every object. */}}
{{- define "chart.labels" -}}
{{- with omit $.Values.commonLabels "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/managed-by" "helm.sh/chart" "control-plane" }}
{{- toYaml . }}
{{ end -}}
app.kubernetes.io/name: {{ include "chart.name" $ | quote }}
app.kubernetes.io/instance: {{ $.Release.Name | quote }}
app.kubernetes.io/managed-by: {{ $.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $.Chart.Name $.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* The name of the manager's ServiceAccount. */}}
{{- define "chart.serviceAccountName" -}}
{{- if $.Values.serviceAccount.name }}
{{- $.Values.serviceAccount.name }}
{{- else if $.Values.serviceAccount.enabled }}
{{- include "chart.resourceName" (dict "suffix" "controller-manager" "context" $) }}
{{- else }}
{{- fail "serviceAccount.enabled is false: say in serviceAccount.name which ServiceAccount the manager runs as" }}
{{- end }}
{{- end }}

{{/* The namespaces that the manager works in, as a JSON array; it is empty when that is all of them. */}}
{{- define "chart.watchNamespaces" -}}
{{- if kindIs "slice" $.Values.watchNamespaces }}
{{- if not $.Values.watchNamespaces }}
{{- fail "watchNamespaces is empty: name some, or write all or own" }}
{{- end }}
{{- toJson $.Values.watchNamespaces }}
{{- else if eq $.Values.watchNamespaces "own" }}
{{- list $.Release.Namespace | toJson }}
{{- else -}}
[]
{{- end }}
{{- end }}

{{/* Refuses values that do not go together. */}}
{{- define "chart.check" -}}
{{- if and (gt (int $.Values.manager.replicas) 1) (not $.Values.leaderElection.enabled) }}
{{- fail "manager.replicas is more than 1: without leaderElection.enabled all of them would work at once" }}
{{- end }}
{{- if and $.Values.prometheus.enabled (not $.Values.metrics.enabled) }}
{{- fail "prometheus.enabled needs metrics.enabled: there is nothing to scrape" }}
{{- end }}
{{- if and $.Values.networkPolicy.enabled (not $.Values.metrics.enabled) }}
{{- fail "networkPolicy.enabled needs metrics.enabled: it is about who reaches the metrics" }}
{{- end }}
{{- end }}
