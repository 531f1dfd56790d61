/*
description: How every hotel did, in weeks.
key: [window_start, window_end, hotel_id, hotel_name, hotel_category]
event_time: window_start
lateness: 30 seconds
mode: upsert
changes:
  denormalized_hotel_bookings: {window_start: "TUMBLE(booking_date, INTERVAL '7' DAY)", hotel_id: hotel_id}
outcomes:
  the weeks: they begin on Thursdays, 00:00 UTC, as Flink counts windows from 1970-01-01.
  a week that is not over: its row is there and grows; Flink shows it when it is over.
  a hotel that is renamed within a week: two rows, so that no booking is lost. The lab groups by the name, too,
    but its key is without it, so that one of the two rows replaces the other.
  average_review_rating: of 4 and 5, 4.50. Flink's AVG of integers is an integer, and would give 4.00.
  sums: exact, of amounts with six decimals, whatever the order of their addition. NaN, infinity and what is
    beyond 10^32 add nothing; a sum of nothing is NULL. In Flink one NaN makes the sum NaN.
  types: the sums `total_guest_count` and `review_count` are BIGINT. Flink's are INT, and overflow. `window_start` and
    `window_end` are moments (TIMESTAMP_LTZ); Flink's are TIMESTAMP(3), without a time zone.
checks:
  sums_equal_the_bookings: >
    SELECT
      COALESCE(stats.window_start, booked.window_start) AS window_start,
      COALESCE(stats.hotel_id, booked.hotel_id) AS hotel_id,
      stats.bookings AS in_stats,
      booked.bookings AS in_bookings,
      stats.amount AS amount_in_stats,
      booked.amount AS amount_in_bookings
    FROM (
      SELECT window_start, hotel_id, SUM(total_bookings_count) AS bookings, SUM(total_booking_amount) AS amount
      FROM product GROUP BY window_start, hotel_id
    ) stats
    FULL OUTER JOIN (
      SELECT window_start, hotel_id, COUNT(*) AS bookings,
        SUM(booking_amount) FILTER (WHERE ABS(booking_amount) < 1e32) AS amount,
        SUM(ABS(booking_amount)) FILTER (WHERE ABS(booking_amount) < 1e32) AS magnitude
      FROM TUMBLE(denormalized_hotel_bookings, booking_date, INTERVAL '7' DAY)
      GROUP BY window_start, hotel_id
    ) booked ON booked.window_start = stats.window_start AND booked.hotel_id = stats.hotel_id
    WHERE NOT (stats.bookings <=> booked.bookings)
      OR ABS(COALESCE(stats.amount, 0) - COALESCE(booked.amount, 0)) > 0.01 + 1e-9 * COALESCE(booked.magnitude, 0)
*/
SELECT
  window_start,
  window_end,
  COALESCE(hotel_id, 'UNKNOWN_HOTEL') AS hotel_id,
  COALESCE(hotel_name, 'UNKNOWN_HOTEL_NAME') AS hotel_name,
  COALESCE(hotel_category, 'UNKNOWN_HOTEL_CATEGORY') AS hotel_category,
  COUNT(*) AS total_bookings_count,
  SUM(guest_count) AS total_guest_count,
  CAST(TRY_SUM(TRY_CAST(booking_amount AS DECIMAL(38, 6))) AS DOUBLE) AS total_booking_amount,
  CAST(AVG(review_rating) AS DECIMAL(10, 2)) AS average_review_rating,
  SUM(CASE WHEN review_rating IS NOT NULL THEN 1 ELSE 0 END) AS review_count
FROM TABLE(
  TUMBLE(TABLE `denormalized_hotel_bookings`, DESCRIPTOR(booking_date), INTERVAL '7' DAY)
)
WHERE hotel_id IS NOT NULL
GROUP BY
  window_start,
  window_end,
  COALESCE(hotel_id, 'UNKNOWN_HOTEL'),
  COALESCE(hotel_name, 'UNKNOWN_HOTEL_NAME'),
  COALESCE(hotel_category, 'UNKNOWN_HOTEL_CATEGORY')
