/*
description: What every customer bought within the 30 days up to the newest order of that customer.
key: [customerid]
event_time: updated_at
lateness: 5 seconds
mode: upsert
changes:
  product_sales: {customerid: customerid}
outcomes:
  the 30 days: they end with the customer's own newest order (`updated_at`), as the last row of an OVER window
    with RANGE INTERVAL '30' DAY PRECEDING does in Flink; both ends count. So no row changes by the clock alone.
  two customers of one name: two rows, told apart by `customerid`.
  sums: exact, of amounts with six decimals, whatever the order of their addition. NaN, infinity and what is
    beyond 10^32 add nothing; a sum of nothing is NULL. In Flink one NaN makes the sum NaN.
checks:
  totals_equal_the_sales: >
    SELECT snap.customerid, snap.number_of_orders, snap.total_amount
    FROM product snap
    LEFT JOIN product_sales sale
      ON sale.customerid = snap.customerid AND sale.orderdate >= snap.updated_at - INTERVAL '30' DAY
    GROUP BY snap.customerid, snap.number_of_orders, snap.total_amount
    HAVING COUNT(DISTINCT sale.orderid) <> snap.number_of_orders
      OR ABS(COALESCE(SUM(sale.total_amount) FILTER (WHERE ABS(sale.total_amount) < 1e32), 0) - COALESCE(snap.total_amount, 0))
        > 0.01 + 1e-9 * COALESCE(SUM(ABS(sale.total_amount)) FILTER (WHERE ABS(sale.total_amount) < 1e32), 0)
*/
SELECT
  customerid,
  MAX(customername) AS customername,
  CAST(TRY_SUM(TRY_CAST(total_amount AS DECIMAL(38, 6))) AS DOUBLE) AS total_amount,
  COUNT(DISTINCT orderid) AS number_of_orders,
  updated_at
FROM (
  SELECT *, MAX(orderdate) OVER (PARTITION BY customerid) AS updated_at
  FROM product_sales
)
WHERE orderdate >= updated_at - INTERVAL '30' DAY
GROUP BY customerid, updated_at
