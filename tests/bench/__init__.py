"""Tests of `src.bench`; a package, because `tests/analysis` has a file of the same name."""
