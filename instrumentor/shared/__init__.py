"""What every room may use: errors, options as values, the console, private folders, projects.

In: nothing of the tool; out: small values and functions without a stage of their own.
"""
