"""Which of several replicas leads."""
