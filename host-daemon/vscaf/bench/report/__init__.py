"""The report of `vscaf bench`: an HTML page, pictures, tables, and a recommendation."""
