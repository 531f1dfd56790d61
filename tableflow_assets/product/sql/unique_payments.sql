/*
description: The first payment of every order, by event time.
key: [order_id]
event_time: ts
lateness: 5 seconds
mode: upsert
changes:
  payments: {order_id: "COALESCE(order_id, 0)"}
outcomes:
  several payments of an order: the earliest by `ts` stays, whenever it arrives. Flink's lab forgets an
    order after an hour, and would let a later payment in again; and it drops payments that come after the
    watermark, all of which count here.
  the same `ts` twice: the first one in Kafka's order, which is by offset; of several partitions, of the one
    whose timestamp is the oldest.
  payments without order_id: all of them are the order 0, as in the lab; the first of them is its row. An
    order whose number is 0 is the same order, so that `order_id` stays unique.
checks:
  no_order_twice: >
    SELECT order_id, COUNT(*) AS count_total FROM product GROUP BY order_id HAVING COUNT(*) > 1
  amounts_are_positive: SELECT order_id, amount FROM product WHERE amount IS NULL OR amount <= 0
*/
SELECT
  COALESCE(order_id, 0) AS order_id,
  product_id,
  customer_id,
  confirmation_code,
  cc_number,
  expiration,
  amount,
  ts
FROM FIRST_ROW(payments, COALESCE(order_id, 0), ts)
