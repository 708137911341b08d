"""The AdmissionReview wire format: what comes in, what goes out, what the API server accepts."""
