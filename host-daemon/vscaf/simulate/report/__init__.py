"""Results of runs: summaries, tables, documents, pictures, and the best possible split."""
