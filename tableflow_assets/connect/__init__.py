"""How other engines get at the tables: snippets to paste, one file for each engine."""
