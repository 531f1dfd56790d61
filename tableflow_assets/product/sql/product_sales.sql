/*
description: Every line of every order, with its product and its customer beside it.
key: [orderitemid]
event_time: orderdate
lateness: 5 seconds
mode: upsert
changes:
  shiftleft.public.order_items: {orderitemid: orderitemid}
  shiftleft.public.orders: >
    SELECT item.orderitemid
    FROM changed JOIN `shiftleft.public.order_items` item ON item.orderid = changed.orderid
  shiftleft.public.customers: >
    SELECT item.orderitemid
    FROM changed
    JOIN `shiftleft.public.orders` ord ON ord.customerid = changed.customerid
    JOIN `shiftleft.public.order_items` item ON item.orderid = ord.orderid
  shiftleft.public.products: >
    SELECT item.orderitemid
    FROM changed
    JOIN (SELECT productid, MIN(updatedat) AS known_since FROM `shiftleft.public.products` GROUP BY productid) first
      ON first.productid = changed.productid
    JOIN `shiftleft.public.order_items` item ON item.productid = changed.productid
    JOIN `shiftleft.public.orders` ord ON ord.orderid = item.orderid
    WHERE ord.orderdate >= changed.updatedat OR changed.updatedat <= first.known_since
outcomes:
  a price that changes: orders keep the price of their own time. Before the first price that is known, that one.
  two prices of the same `updatedat`: the last one in Kafka's order holds from then on; for orders from before,
    if there is no older price, the first one.
  a customer who changes: all lines show the newest name.
  a line without its order, product or customer: no row until they are there, as in Flink's inner joins.
  an order or line that is updated: its newest state counts, also if the line moves to another order.
checks:
  amounts_are_positive: >
    SELECT orderitemid, quantity, price, total_amount FROM product
    WHERE total_amount IS NULL OR quantity <= 0 OR price < 0
*/
WITH states AS (
  -- Of the same `updatedat`, in Kafka's order: by offset within a partition, whatever the clocks say.
  SELECT *, MAX(`_kafka`.timestamp) OVER (PARTITION BY productid, updatedat, `_kafka`.partition) AS newest
  FROM `shiftleft.public.products`
),
prices AS (
  SELECT
    productid,
    brand,
    productname,
    category,
    price,
    updatedat,
    LEAD(updatedat) OVER (PARTITION BY productid ORDER BY updatedat, newest, `_kafka`.partition, `_kafka`.offset) AS until,
    ROW_NUMBER() OVER (PARTITION BY productid ORDER BY updatedat, newest, `_kafka`.partition, `_kafka`.offset) = 1 AS is_first
  FROM states
)
SELECT
  item.orderitemid,
  ord.orderid,
  ord.orderdate,
  ord.channel,
  cust.customerid,
  cust.customername,
  prod.productid,
  prod.brand,
  prod.productname,
  prod.category,
  prod.price,
  item.quantity,
  item.quantity * prod.price AS total_amount
FROM LAST_ROW(`shiftleft.public.order_items`, orderitemid) item
  JOIN LAST_ROW(`shiftleft.public.orders`, orderid) ord
    ON ord.orderid = item.orderid
  JOIN LAST_ROW(`shiftleft.public.customers`, customerid) cust
    ON cust.customerid = ord.customerid
  JOIN prices prod
    ON prod.productid = item.productid
    AND (prod.updatedat <= ord.orderdate OR prod.is_first)
    AND (prod.until IS NULL OR ord.orderdate < prod.until)
