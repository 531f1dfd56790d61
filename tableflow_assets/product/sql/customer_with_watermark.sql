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
  two states of the same `updated_at`: the last one in Kafka's order (by offset, whatever the clocks say).
  a state that arrives late: it takes its place between the others, and bookings of that time follow.
  a time that is not of the format: in `updated_at`, the state is left out and the check `states_have_a_time`
    shows it. Flink would take it for a state of 1970-01-01; nobody knows since when it holds. In `created_at`,
    it is NULL. A day that does not exist, 24:00 and a space for the T are no times (Flink takes them);
    fewer digits of the second than three are (in Flink they are not).
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
