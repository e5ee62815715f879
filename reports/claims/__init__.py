"""Claims of the papers: the ledger, the numbers of its criteria, the verdicts."""
