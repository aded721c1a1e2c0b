{{/* There is one operator in a cluster, so its objects have one name. */}}
{{- define "druid.selector" -}}
app.kubernetes.io/name: etcd-druid
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "druid.labels" -}}
{{ include "druid.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "druid.image" -}}
{{ .Values.image.repository }}:{{ required "image.tag is required: the version of the image, such as --set-string image.tag=v0.1.0" .Values.image.tag }}
{{- end }}

{{/* The whole OperatorConfiguration. */}}
{{- define "druid.config" -}}
{{- $ours := dict "apiVersion" "config.druid.gardener.cloud/v1alpha1" "kind" "OperatorConfiguration" "images" (dict "all" (include "druid.image" .)) -}}
{{- $all := mergeOverwrite $ours (deepCopy .Values.config) (dict "leaderElection" (dict "enabled" true)) -}}
{{- with .Values.webhook -}}
{{- if .enabled -}}
{{- $dir := ternary "" "/etc/webhook-server-tls" (eq .certificates "operator") -}}
{{- $account := dict "name" "etcd-druid" "namespace" $.Release.Namespace -}}
{{- $protection := dict "enabled" true "serviceAccountInfo" $account "exemptServiceAccounts" .exemptServiceAccounts -}}
{{- $all = mergeOverwrite $all (dict "webhooks" (dict "etcdComponentProtection" $protection) "server" (dict "webhooks" (dict "serverCertDir" $dir))) -}}
{{- end -}}
{{- end -}}
{{- toYaml $all -}}
{{- end }}

{{/*
The Secret with the certificate that is mounted; empty: none is. cert-manager's is not etcd-druid-webhook, where the operator keeps its own:
it would adopt what it finds there, and have nobody trust it as long as that is good.
*/}}
{{- define "druid.certificate" -}}
{{- with .Values.webhook -}}
{{- if and .enabled (eq .certificates "cert-manager") -}}
etcd-druid-webhook-cert-manager
{{- else if and .enabled (eq .certificates "secret") -}}
{{ required "webhook.secretName is required: the Secret with tls.crt and tls.key, or let webhook.certificates be operator" .secretName }}
{{- end -}}
{{- end -}}
{{- end }}
