"""Says of each field of an object who wrote it last, and who changed it on its way."""
