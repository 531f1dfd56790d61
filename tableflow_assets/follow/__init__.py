"""Staying with the log: one process that commits again and again, for every topic that is behind.

Read in this order: ``backlog`` (what is unread, and since when), ``turn`` (one visit to one topic), ``pace``
(how often, how long, how many at a time), ``follow`` (the loop).
"""
