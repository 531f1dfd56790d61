/*
description: Every booking, by the time it was made.
key: [booking_id]
event_time: event_time
lateness: 30 seconds
mode: upsert
changes:
  bookings: {booking_id: booking_id}
outcomes:
  a booking that is sent again: the last one in Kafka's order (by offset, whatever the clocks say), as in
    Flink's tables with a primary key.
  a check-out before its check-in: kept, and shown by the check `stays_end_after_they_begin`.
checks:
  stays_end_after_they_begin: >
    SELECT booking_id, check_in, check_out FROM product WHERE check_out <= check_in
*/
SELECT
  `booking_id`,
  `customer_email`,
  `hotel_id`,
  `check_in`,
  `check_out`,
  `occupants`,
  `price`,
  `created_at` AS `event_time`
FROM LAST_ROW(`bookings`, booking_id)
