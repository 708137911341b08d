"""The dashboard: HTML pages about the state of this server, and the same data as JSON."""
