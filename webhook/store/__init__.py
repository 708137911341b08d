"""Where what must be remembered is kept."""
