"""Tables of files as job submissions, with every problem by its line."""
