/*
description: How many orders were completed in every hour, and what they brought.
chart: {kind: line, x: window_start, y: total_revenue}
*/
SELECT
  date_trunc('hour', ts) AS window_start,
  date_trunc('hour', ts) + INTERVAL '1' HOUR AS window_end,
  COUNT(*) AS total_orders,
  ROUND(SUM(amount), 2) AS total_revenue
FROM completed_orders
GROUP BY date_trunc('hour', ts)
ORDER BY window_start
