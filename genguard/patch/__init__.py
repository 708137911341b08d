"""Edits on an object become JSON Patch operations that provably apply."""
