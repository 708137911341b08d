"""Loops and quiet lives of objects, played on a real control plane, recorded, and examined."""
