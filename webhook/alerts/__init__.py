"""Where findings go: log, Kubernetes Events, Alertmanager."""
