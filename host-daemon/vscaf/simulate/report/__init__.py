"""What runs come to: summaries, tables, documents, pictures, and the best that was possible."""
