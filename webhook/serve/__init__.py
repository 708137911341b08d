"""`genguard serve`: its flags, and how the parts of the server are connected."""
