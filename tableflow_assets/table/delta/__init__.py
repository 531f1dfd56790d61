"""The Delta log over an Iceberg table's own files."""
