"""Files of a program to modules, names and control flow; nothing here knows of training.

In: source text; out: syntax trees with addresses, what names refer to, and which paths code takes.
"""
