/*
description: The 20 best customers of their last 30 days, among those with more than 5 orders.
chart: {kind: bar, x: customername, y: total_amount}
*/
SELECT
  customername,
  total_amount,
  number_of_orders,
  updated_at
FROM thirty_day_customer_snapshot
WHERE number_of_orders > 5
ORDER BY total_amount DESC, customerid
LIMIT 20
