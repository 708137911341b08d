{{/* The server's image: a digest goes before a tag. */}}
{{- define "genguard.image" -}}
{{- $image := $.Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* Whether lost values are put back: "yes", or nothing. The default is no where nothing is changed. */}}
{{- define "genguard.heals" -}}
{{- if and (not $.Values.auditOnly) (ne (toString $.Values.heal) "false") -}}yes{{- end -}}
{{- end -}}

{{/* The rule of a NetworkPolicy that lets the pods reach `url`, at `port` where the URL has none. */}}
{{- define "genguard.egress" -}}
{{- $place := regexReplaceAll "^[a-z]+://([^/?@]*@)?([^/?#]*).*$" .url "${2}" | lower -}}
{{- $port := regexFind ":[0-9]+$" $place | trimPrefix ":" | default (toString .port) -}}
{{- $host := regexReplaceAll ":[0-9]+$" $place "" | trimPrefix "[" | trimSuffix "]" -}}
{{- $parts := splitList "." $host -}}
ports:
  - port: {{ $port }}
    protocol: TCP
{{- if contains ":" $host }}
to:
  - ipBlock:
      cidr: {{ printf "%s/128" $host | quote }}
{{- else if regexMatch "^[0-9]+(\\.[0-9]+){3}$" $host }}
to:
  - ipBlock:
      cidr: {{ printf "%s/32" $host | quote }}
{{- else if and (ge (len $parts) 3) (eq (index $parts 2) "svc") }}
to:
  - namespaceSelector:
      matchLabels:
        kubernetes.io/metadata.name: {{ index $parts 1 | quote }}
{{- end }}
{{- end -}}

{{/* More flags of `genguard serve`. */}}
{{- define "genguard.serveFlags" -}}
{{- range $name, $value := $.Values.serve }}
{{- if kindIs "bool" $value }}
{{- if $value }}
- --{{ $name }}
{{- end }}
{{- else if and (kindIs "slice" $value) (has $name (list "dns-name" "alertmanager")) }}
{{- range $value }}
- {{ printf "--%s=%s" $name . | quote }}
{{- end }}
{{- else if kindIs "slice" $value }}
- {{ printf "--%s=%s" $name (join "," $value) | quote }}
{{- else if kindIs "float64" $value }}
- {{ printf "--%s=%d" $name (int64 $value) | quote }}
{{- else }}
- {{ printf "--%s=%v" $name $value | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The annotations of an object that is there only while the server is registered. */}}
{{- define "genguard.hook" -}}
helm.sh/hook: post-install,post-upgrade,post-rollback
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}
