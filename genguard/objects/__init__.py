"""Reading Kubernetes objects without decoding more of them than a question needs."""
