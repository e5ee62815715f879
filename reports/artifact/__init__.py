"""Tables of ARTIFACT.md, written from the ledger and the records."""
