"""genguard: an admission webhook that keeps generation and observedGeneration honest."""
