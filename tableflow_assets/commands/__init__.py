"""What `tableflow` does, one file a family of commands."""
