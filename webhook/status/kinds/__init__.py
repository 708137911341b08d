"""How each kind is judged: one file for a kind or a small family."""
