"""What tt-lang's profilers print and write, as values: parsers, verdict, report.

In: what tt-lang's profilers printed and wrote; out: findings, a bottleneck and a report.

``parse_log`` reads a whole log in any order and spelling, ``read_device_log`` the structured
``profile_log_device.csv``; ``bottleneck`` judges them and ``report`` gathers everything of a run.
``simulation``, ``simulated_findings`` and ``simulated_report`` are the same of a simulated one.
Nothing here knows how the kernel was run.
"""
