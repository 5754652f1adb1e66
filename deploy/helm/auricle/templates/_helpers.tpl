{{/* A file of the chart, with this release's names in place of those it was rendered with. */}}
{{- define "auricle.file" -}}
{{- $top := index . 0 -}}
{{- $values := $top.Values -}}
{{- $text := $top.Files.Get (index . 1) -}}
{{- if not $text -}}
{{- fail (printf "this chart has no %s" (index . 1)) -}}
{{- end -}}
{{- $names := dict
  "the-release" $top.Release.Name
  "the-namespace" $top.Release.Namespace
  "the-image" ($values.image | default (index . 2))
  "the-internal-secret" $values.secrets.internal
  "the-keys-secret" $values.secrets.apiKeys
  "the-hub-secret" $values.secrets.hubToken
  "the-claim" $values.models.claim
  "the-storage-class" $values.models.storageClass
  "the-platform" $values.platformNamespace
  "the-monitoring" $values.monitoring.namespace -}}
{{- range $name, $value := $names -}}
{{- $text = $text | replace $name $value -}}
{{- end -}}
{{- $text -}}
{{- end -}}

{{/* Members of a list without the one of this name. */}}
{{- define "auricle.without" -}}
{{- $kept := list -}}
{{- range index . 0 -}}
{{- if ne .name (index $ 1) -}}{{- $kept = append $kept . -}}{{- end -}}
{{- end -}}
{{- $kept | toJson -}}
{{- end -}}
