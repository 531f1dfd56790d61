/*
description: Orders and revenue by payment method; NULL are the orders from before the column was there.
needs: >
  Give `completed_orders` its column payment_method: set `products.completed_orders.sql` to
  completed_orders_with_method in tableflow.yaml, then run: tableflow products run completed_orders
chart: {kind: bar, x: payment_method, y: total_revenue}
*/
SELECT
  payment_method,
  COUNT(*) AS order_count,
  ROUND(SUM(amount), 2) AS total_revenue
FROM completed_orders
GROUP BY payment_method
ORDER BY payment_method NULLS FIRST
