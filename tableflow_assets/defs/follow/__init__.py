"""The run that stays: ``job`` runs the loop of ``tableflow_assets.follow``, ``reports`` tells Dagster."""
