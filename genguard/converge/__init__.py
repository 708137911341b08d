"""Predict whether what a manifest asks for stays, or is changed again and again."""
