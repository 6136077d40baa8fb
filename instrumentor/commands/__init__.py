"""One module per verb; each imports what it needs only when it runs."""
