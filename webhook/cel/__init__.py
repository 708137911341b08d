"""matchConditions in CEL, evaluated in a process of its own."""
