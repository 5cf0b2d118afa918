"""Reports, plans and inspections as text and JSON."""
