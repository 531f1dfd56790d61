"""A product with a mistake that only Spark can find."""

WRONG_COLUMN = """/*
description: All payments.
key: [order_id]
event_time: ts
lateness: 5 seconds
mode: upsert
changes: {payments: {order_id: order_id}}
*/
SELECT
  order_id,
  amont,
  ts
FROM LAST_ROW(payments, order_id)
"""
