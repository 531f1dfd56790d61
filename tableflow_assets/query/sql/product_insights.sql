/*
description: The 20 products that sell best, by revenue.
chart: {kind: bar, x: [brand, productname], y: total_revenue}
*/
SELECT
  brand,
  productname,
  COUNT(DISTINCT orderid) AS order_count,
  ROUND(SUM(total_amount), 2) AS total_revenue,
  ROUND(AVG(quantity), 2) AS avg_quantity
FROM product_sales
GROUP BY brand, productname
ORDER BY total_revenue DESC, brand, productname
LIMIT 20
