"""The documents as a site: `python3 -m tools.site` builds it."""
