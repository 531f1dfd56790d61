/*
description: Every order that was paid within 96 hours, with its payment.
key: [order_id]
event_time: ts
lateness: 5 seconds
mode: upsert
changes:
  unique_payments: {order_id: order_id}
  shiftleft.public.orders: {order_id: orderid}
outcomes:
  a payment before its order arrives: the row comes with the order, however late.
  a payment made before its order, or more than 96 hours after it: no row.
  an order that is updated after its payment: its newest state counts, and may take the row away. Flink would
    join every state, and give one row for each.
  a first payment that was too early or too late: it hides a second one in time, as in Flink, because
    only the first payment of an order is looked at.
  payments without order_id: they are the order 0. They complete it only if there is an order 0.
checks:
  paid_within_96_hours: >
    SELECT paid.order_id, paid.ts, ord.orderdate
    FROM product paid
    LEFT JOIN LAST_ROW(`shiftleft.public.orders`, orderid) ord ON ord.orderid = paid.order_id
    WHERE ord.orderdate IS NULL OR NOT paid.ts BETWEEN ord.orderdate AND ord.orderdate + INTERVAL '96' HOUR
*/
SELECT
  pymt.order_id,
  pymt.amount,
  pymt.confirmation_code,
  pymt.ts
FROM unique_payments pymt, LAST_ROW(`shiftleft.public.orders`, orderid) ord
WHERE pymt.order_id = ord.orderid
  AND ord.orderdate BETWEEN pymt.ts - INTERVAL '96' HOUR AND pymt.ts
