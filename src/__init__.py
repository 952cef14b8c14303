"""stepsweep: what `torch.compile` does to an optimizer step, measured against eager.

Rooms, in the order in which a run flows through them: `spec` (what to measure), `sweep` (a fresh
process for each run), `bench` (everything that needs torch), `record` and `store` (one row per
run), `analysis` (rows to comparisons to tables). `CONTRIBUTING.md` has the map.
"""
