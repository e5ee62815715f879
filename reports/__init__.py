"""Report: figures, tables and static pages, drawn from stored runs alone."""

# This import comes before any of harness: it checks that harness is Elastrace's package.
import reports.beside_harness  # noqa: F401
from harness.machine.starting import end_at_once_until_main

end_at_once_until_main()
