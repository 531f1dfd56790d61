"""What `tableflow` does, one file per family of commands."""
