// The alerts and the dashboard as a mixin (https://monitoring.mixins.dev), out of the same files
// that manifests/monitoring applies. docs/install.md shows how to use it.
{
  prometheusAlerts+:: {
    groups+: std.parseYaml(importstr 'rules.yaml').spec.groups,
  },
  grafanaDashboards+:: {
    'genguard.json': import 'grafana/genguard.json',
  },
}
