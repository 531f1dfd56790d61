/*
description: Every booking with its customer and hotel as they were when it was made, and its review.
key: [booking_id]
event_time: booking_date
lateness: 30 seconds
mode: upsert
changes:
  bookings_with_watermark: {booking_id: booking_id}
  hotel_reviews: {booking_id: booking_id}
  customer_with_watermark: >
    SELECT b.booking_id FROM changed JOIN bookings_with_watermark b
    ON b.customer_email = changed.email AND b.event_time >= changed.updated_at
  hotel_with_watermark: >
    SELECT b.booking_id FROM changed JOIN bookings_with_watermark b
    ON b.hotel_id = changed.hotel_id AND b.event_time >= changed.updated_at
outcomes:
  a customer or hotel that did not exist when it was booked: no row, as in Flink's temporal join. What counts
    is `updated_at`. A state from before that arrives later brings the row, one from after does not.
  a check-in or check-out that is no time of the years 1 to 9999: NULL.
  a booking that is sent again and no longer joins (another customer or hotel, an earlier time): its row goes.
    In Flink it stays, because the lab's join only ever appends.
  a hotel that is renamed: bookings from before keep the old name.
  a review without booking: no row. It joins when its booking arrives.
  two reviews of one booking: the newer one by `created_at`; of the same time, the last in Kafka's
    order. Flink keeps the one that it happened to read last.
checks:
  every_booking_has_guests_and_a_price: >
    SELECT booking_id, guest_count, booking_amount FROM product
    WHERE guest_count IS NULL OR guest_count <= 0 OR booking_amount IS NULL OR booking_amount < 0
  ratings_are_1_to_5: >
    SELECT booking_id, review_rating FROM product WHERE NOT review_rating BETWEEN 1 AND 5
*/
SELECT
  b.`booking_id`,
  h.`hotel_id`,
  h.`name` AS `hotel_name`,
  h.`description` AS `hotel_description`,
  h.`category` AS `hotel_category`,
  h.`city` AS `hotel_city`,
  h.`country` AS `hotel_country`,
  b.`price` AS `booking_amount`,
  b.`occupants` AS `guest_count`,
  b.`event_time` AS `booking_date`,
  TO_TIMESTAMP_LTZ(b.`check_in`, 3) AS `check_in`,
  TO_TIMESTAMP_LTZ(b.`check_out`, 3) AS `check_out`,
  c.`email` AS `customer_email`,
  c.`first_name` AS `customer_first_name`,
  hr.`review_rating` AS `review_rating`,
  hr.`review_text` AS `review_text`,
  hr.`created_at` AS `review_date`
FROM `bookings_with_watermark` b
  JOIN `customer_with_watermark` FOR SYSTEM_TIME AS OF b.`event_time` AS c
    ON c.`email` = b.`customer_email`
  JOIN `hotel_with_watermark` FOR SYSTEM_TIME AS OF b.`event_time` AS h
    ON h.`hotel_id` = b.`hotel_id`
  LEFT JOIN LAST_ROW(`hotel_reviews`, booking_id, created_at) hr
    ON hr.`booking_id` = b.`booking_id`
