"""What a review costs: recorded pod reviews over TLS against several servers, side by side."""
