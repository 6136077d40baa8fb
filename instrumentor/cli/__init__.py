"""The command line: each verb turns words into one call of the library, and its result into text.

In: `sys.argv`, the environment, `[tool.instrumentor]`; out: printed text and an exit code.
"""
