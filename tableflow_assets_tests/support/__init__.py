"""What tests share: servers of their own, faults, topics, readers, and generators of records."""
