"""At which minute of the hour our schedules begin: apart from one another, so that none waits for the others.

Never at the full hour, when everybody else's begin. Maintenance has a sensor of its own, which spreads its
work over the whole hour.
"""

VERIFY = "5 * * * *"
REPORTS = "20 * * * *"
CHECK_PRODUCTS = "35 * * * *"
PRUNE_RUNS = "50 * * * *"
