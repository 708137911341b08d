"""Parts of detection on their own."""
