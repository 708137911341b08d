"""What genguard knows of a kind, told to people: read from the tables that the engine reads."""
