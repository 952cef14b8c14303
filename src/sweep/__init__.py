"""What surrounds the measuring: command line, one process per run, caches, progress, ending.

Nothing here imports torch; that happens in the process of each run.
"""
