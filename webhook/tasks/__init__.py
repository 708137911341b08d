"""Tasks that run as long as the server does, and threads for slow work."""
