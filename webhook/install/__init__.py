"""Plan what `install` and `uninstall` do, without a cluster."""
