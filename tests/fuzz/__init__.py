"""Drivers that run random cases for a given time; each prints a summary, and the seed and the case of each fault."""
