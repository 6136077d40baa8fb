"""Earlier runs: reports made from their folders, and the history of a script.

In: run folders and ops CSVs; out: files of a report, rows of a history.
"""
