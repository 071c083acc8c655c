"""Search by SQL: a question, its answer as table or chart. How queries are kept harmless is the store's."""
