"""All that runs inside a run's own process and needs torch.

Nothing here knows of Hydra, of files of rows or of tables: a `RunSpec` comes in, facts for the row
go out.
"""
