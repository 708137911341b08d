"""The admission server: aiohttp over TLS, and the ops port."""
