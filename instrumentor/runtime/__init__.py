"""Files that run outside the tool: in the user's interpreter or as the guard of a run.

In: a request by environment and files; out: records, one JSON object a line.

None of them imports instrumentor. Each is self-contained, needs the standard library only and
works on Python 3.8 and newer; the runner copies them or hands them over by path.
"""
