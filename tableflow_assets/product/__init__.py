"""Data products: tables that Spark SQL computes from topics' tables and other products.

Read in this order: ``definition`` (a .sql file with its header), ``load`` (all of them, the broken apart),
``flink`` (the concepts of Flink that such a file may use), ``changes``, ``scope`` and ``affected`` (which
rows a run has to look at again), ``runner`` (from changes to one commit), ``recheck`` (whether it all adds
up), ``lineage`` (where each column comes from).
"""
