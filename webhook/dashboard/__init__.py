"""The dashboard: pages of what this server knows, and the JSON behind each of them."""
