"""Staying with the log: one process that commits again and again, for every topic that is behind.

Read in this order: ``backlog`` (what is unread, and since when), ``due`` (when that is worth a commit),
``turn`` (one visit to one topic), ``workers`` (turns side by side), ``products`` (the same for what is
computed from the tables), ``packing`` (small files, merged meanwhile), ``pace`` (how often, how long, how
many at a time), ``follow`` (the loop).
"""
