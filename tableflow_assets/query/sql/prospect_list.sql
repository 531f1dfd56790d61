/*
description: Who looked at hotels and has not booked, the most eager first.
chart: {kind: bar, x: customer_email, y: clicks}
*/
SELECT
  customer_email,
  first_name,
  last_name,
  clicks,
  hotels,
  last_hotel_id,
  last_click
FROM prospects
ORDER BY clicks DESC, last_click DESC, customer_email
