"""`genguard serve`: how the parts of the server are connected."""
