"""What is well and what is not with genguard in a cluster, from facts that somebody gathered."""
