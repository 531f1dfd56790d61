/*
description: Every state that a customer has had, for joins as of a moment.
key: [email, updated_at]
event_time: updated_at
lateness: 30 seconds
mode: upsert
versions_of: [email]
changes:
  riverhotel.cdc.customer:
    email: email
    updated_at: TO_TIMESTAMP(updated_at, 'yyyy-MM-dd''T''HH:mm:ss.SSS''Z''')
outcomes:
  two states of the same `updated_at`: the last one in Kafka's order.
  a state that arrives late: it takes its place between the others, and bookings of that time follow.
  a time that cannot be parsed: in `updated_at`, the state is left out and the check `states_have_a_time` shows
    it (Flink refuses a NULL row time); in `created_at`, it is NULL.
  a deleted customer: a tombstone has no `updated_at`; it is a dead letter of the topic, and the last state
    stays. Bookings keep what they had.
checks:
  states_have_a_time: >
    SELECT email, created_at, updated_at FROM `riverhotel.cdc.customer`
    WHERE TO_TIMESTAMP(updated_at, 'yyyy-MM-dd''T''HH:mm:ss.SSS''Z''') IS NULL
*/
SELECT
  `email`,
  `customer_id`,
  `first_name`,
  `last_name`,
  `birth_date`,
  TO_TIMESTAMP(`created_at`, 'yyyy-MM-dd''T''HH:mm:ss.SSS''Z''') AS `created_at`,
  TO_TIMESTAMP(`updated_at`, 'yyyy-MM-dd''T''HH:mm:ss.SSS''Z''') AS `updated_at`
FROM LAST_ROW(`riverhotel.cdc.customer`, (email, TO_TIMESTAMP(updated_at, 'yyyy-MM-dd''T''HH:mm:ss.SSS''Z''')))
WHERE TO_TIMESTAMP(`updated_at`, 'yyyy-MM-dd''T''HH:mm:ss.SSS''Z''') IS NOT NULL
