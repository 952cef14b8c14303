"""Benchmarks of stepsweep itself: `make bench`."""
