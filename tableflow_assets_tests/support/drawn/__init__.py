"""Schemas and values that hypothesis draws: what a test sends, and what it must find in the table."""
