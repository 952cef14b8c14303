"""Rows to cells to tables: everything that is decided after a run has ended.

Data flows one way: `selection` (files to `rows`, by the column), `cells` (rows that measured the same
thing become one cell; `facts` says which, `outcomes` which of them count, `groups`, `repeats`, `traces`
and `explanation` how), `summary`
(cells, geomeans, published values), `grid`, `matrix`, `why` and `paper` (a summary in words: a `document`
of tables with footnotes), `text`, `tables`, `latex`, `html` (a document in a format) and `numbers`, `tidy`
(the same for machines). `changes` and what begins with it compare two sets of rows; `charts` are Vega-Lite
for a page, and PNG, SVG and PDF; `page` is the report; `ending` what a sweep says at its end. It must know
nothing of torch, Hydra or how a run is made: a row file and `src.record` are all it has.
"""
