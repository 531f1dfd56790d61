/*
description: How all hotels together did, week by week, and how their guests rated them.
chart: {kind: line, x: window_start, y: total_booking_amount}
*/
SELECT
  window_start,
  window_end,
  COUNT(DISTINCT hotel_id) AS hotels,
  SUM(total_bookings_count)::BIGINT AS total_bookings_count,
  SUM(total_guest_count)::BIGINT AS total_guest_count,
  ROUND(SUM(total_booking_amount), 2) AS total_booking_amount,
  ROUND(SUM(average_review_rating::DOUBLE * review_count) / NULLIF(SUM(review_count), 0), 2)
    AS average_review_rating,
  SUM(review_count)::BIGINT AS review_count
FROM hotel_stats
GROUP BY window_start, window_end
ORDER BY window_start
