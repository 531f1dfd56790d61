"""How many earlier versions of its metadata a table remembers, and who removes the others."""

# How many earlier versions the metadata lists: those of some 16 commits. None of them is removed, and every
# version repeats the list: Iceberg's default, a hundred, are 60 MB for a busy table.
VERSIONS_IN_LOG = 50
SHORT_METADATA_LOG = {"write.metadata.previous-versions-max": str(VERSIONS_IN_LOG)}
# The server removes what has left that list, if it can: by number, and not by age.
REMOVED_BY_THE_SERVER = "write.metadata.delete-after-commit.enabled"
