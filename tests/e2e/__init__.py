"""genguard as installed, before a real API server: what users of a cluster get from it."""
