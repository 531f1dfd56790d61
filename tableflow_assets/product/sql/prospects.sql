/*
description: Everybody who looked at hotels and has not booked any, with what is known of the customer.
key: [customer_email]
event_time: last_click
lateness: 30 seconds
mode: upsert
changes:
  clickstream: {customer_email: customer_email}
  bookings_with_watermark: {customer_email: customer_email}
  customer_with_watermark: {customer_email: email}
outcomes:
  somebody who books: the row goes, whenever the booking arrives.
  a click that is sent again: it counts once; under another address, once for each.
  clicks of nobody known: a row without name.
checks:
  nobody_has_booked: >
    SELECT p.customer_email FROM product p
    JOIN bookings_with_watermark b ON b.customer_email = p.customer_email
*/
SELECT
  click.customer_email,
  cust.customer_id,
  cust.first_name,
  cust.last_name,
  cust.birth_date,
  COUNT(*) AS clicks,
  COUNT(DISTINCT click.hotel_id) AS hotels,
  MAX_BY(click.hotel_id, STRUCT(click.event_time, click.click_id)) AS last_hotel_id,
  MIN(click.event_time) AS first_click,
  MAX(click.event_time) AS last_click
FROM LAST_ROW(clickstream, (customer_email, click_id)) click
  LEFT JOIN LAST_ROW(customer_with_watermark, email, updated_at) cust
    ON cust.email = click.customer_email
WHERE NOT EXISTS (
  SELECT 1 FROM bookings_with_watermark b WHERE b.customer_email = click.customer_email
)
GROUP BY
  click.customer_email,
  cust.customer_id,
  cust.first_name,
  cust.last_name,
  cust.birth_date
