"""What else the copy changes: the early stop, host reads that move, what is skipped.

In: a chosen loop and its region; out: the statements that each change concerns, and what stays.
"""
