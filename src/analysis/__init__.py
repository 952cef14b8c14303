"""Rows to cells to tables: everything that is decided after a run has ended.

Data flows one way: `selection` (files to `rows`, by the column), `cells` (rows that measured the same
thing become one cell; `facts` says which, `repeats`, `traces` and `explanation` say how), `summary`
(cells, geomeans, published values), `grid`, `matrix` and `why` (a summary in words: a `document` of
tables with footnotes), `text` and `tables` (words to a terminal, Markdown, LaTeX, CSV and Parquet),
`charts` (cells to Vega-Lite for a page, and to PNG, SVG and PDF). It must know nothing of torch, Hydra
or how a run is made: a row file and `src.record` are all it has.
"""
