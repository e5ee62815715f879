"""One run: its plan, its checks, its execution."""
