"""What the tables of the results file hold, for people who query it: a sentence a table and a line a column.

The words are here and the types in the schema; a test holds the two and docs/tables.md together.
"""
