// The alerts and the dashboard as a mixin (https://monitoring.mixins.dev), out of the same files
// that manifests/monitoring applies. docs/install.md shows how to use it.
{
  local rules = std.strReplace(importstr 'rules.yaml', 'http://localhost:8080/runbooks', $._config.runbookUrl),
  _config+:: {
    // Where alerts link their runbooks; by default the server's own pages, through a forwarded port.
    runbookUrl: 'http://localhost:8080/runbooks',
  },
  prometheusAlerts+:: {
    groups+: std.parseYaml(rules).spec.groups,
  },
  grafanaDashboards+:: {
    'genguard.json': import 'grafana/genguard.json',
  },
}
