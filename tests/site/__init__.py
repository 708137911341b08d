"""The documents as a site: `python3 -m tests.site` builds it."""
