"""What `install` and `uninstall` are about to do, decided without a cluster."""
