"""The River Hotels lab: visits to the hotels' site, and the bookings and reviews they lead to.

A visit is a few clicks on one hotel. It may end in a booking, and a booking in a review. Some
customers (prospects) click and never book: the lab looks for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from itertools import count

from tableflow_assets.labs import vocabulary
from tableflow_assets.labs.agenda import Agenda
from tableflow_assets.labs.hotel_chain import CUSTOMER, HOTEL, Customer, Hotel, HotelChain
from tableflow_assets.labs.record import Draft, LabRecord, epoch_millis, record_at
from tableflow_assets.labs.seeding import first_id, seeded_random

BOOKINGS = "bookings"
REVIEWS = "hotel_reviews"
CLICKSTREAM = "clickstream"
TOPICS = (CLICKSTREAM, BOOKINGS, REVIEWS, CUSTOMER, HOTEL)

VISIT_ENDS_IN_BOOKING = 0.7
BOOKING_IS_REVIEWED = 0.4
REVIEW_WITHOUT_TEXT = 0.1
CLICK_ARRIVES_LATE = 0.03
LATE_CLICK_MINUTES = (1, 30)


class RiverHotels:
    """An endless, repeatable stream of drafts for the River Hotels topics."""

    def __init__(self, seed: int) -> None:
        self._random = seeded_random(seed, "river-hotels")
        self._agenda = Agenda()
        self._chain = HotelChain(self._random, first_id(seed))
        self._click_numbers = count(first_id(seed))
        self._booking_numbers = count(first_id(seed))

    def drafts(self) -> Iterator[Draft]:
        # Parents first: a booking's temporal join finds its customer and hotel at its own time.
        yield from self._chain.opening_rows()
        while True:
            yield self._agenda.next_due() or self._begin_something()

    def _begin_something(self) -> Draft:
        chain = self._chain
        (begin,) = self._random.choices(
            (
                self._begin_visit,
                chain.welcome_customer,
                chain.rename_customer,
                chain.recount_rooms,
                chain.rename_hotel,
            ),
            weights=(96, 1, 1, 1.5, 0.5),
        )
        return begin()

    def _begin_visit(self) -> Draft:
        customer = self._random.choice(self._chain.customers)
        hotel = self._random.choice(self._chain.hotels)
        actions = self._random.choices(vocabulary.BROWSING_ACTIONS, k=self._random.randint(1, 4))
        agent = self._random.choice(vocabulary.USER_AGENTS)
        clicks = [partial(self._click_row, customer, hotel, agent, action) for action in actions]
        # The gaps let other visits come in between: several customers are on the site at a time.
        position = 0
        for click in clicks[1:]:
            position += self._random.randint(1, 3)
            self._agenda.add(position, click)
        can_book = customer.email not in self._chain.prospects
        if can_book and self._random.random() < VISIT_ENDS_IN_BOOKING:
            book = partial(self._click_row, customer, hotel, agent, "book")
            self._agenda.add(position + 1, book)
            self._agenda.add(position + 2, partial(self._booking_row, customer, hotel))
        return clicks[0]

    def _click_row(
        self, customer: Customer, hotel: Hotel, agent: str, action: str, now: datetime
    ) -> LabRecord:
        click_id = f"K{next(self._click_numbers)}"
        arrives_late = self._random.random() < CLICK_ARRIVES_LATE
        delay = self._random.randint(*LATE_CLICK_MINUTES) if arrives_late else 0
        value: dict[str, object] = {
            "click_id": click_id,
            "customer_email": customer.email,
            "hotel_id": hotel.hotel_id,
            "action": action,
            "event_time": now - timedelta(minutes=delay),
            "url": f"https://river-hotels.example/hotels/{hotel.hotel_id}/{action}",
            "user_agent": agent,
        }
        return record_at(now, CLICKSTREAM, click_id, value)

    def _booking_row(self, customer: Customer, hotel: Hotel, now: datetime) -> LabRecord:
        number = next(self._booking_numbers)
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        check_in = midnight + timedelta(days=self._random.randint(1, 60), hours=15)
        nights = self._random.randint(1, 10)
        check_out = check_in + timedelta(days=nights, hours=-4)
        value: dict[str, object] = {
            "booking_id": f"B{number}",
            "customer_email": customer.email,
            "hotel_id": hotel.hotel_id,
            "check_in": epoch_millis(check_in),
            "check_out": epoch_millis(check_out),
            "occupants": self._random.randint(1, 5),
            "price": round(nights * self._random.uniform(60, 420), 2),
            "created_at": now,
        }
        if self._random.random() < BOOKING_IS_REVIEWED:
            self._agenda.add(self._random.randint(20, 200), partial(self._review_row, number))
        return record_at(now, BOOKINGS, f"B{number}", value)

    def _review_row(self, booking_number: int, now: datetime) -> LabRecord:
        # The lab does not wait for the end of the stay: a review comes shortly after the booking.
        (rating,) = self._random.choices((1, 2, 3, 4, 5), weights=(1, 2, 4, 8, 7))
        text = self._random.choice(vocabulary.REVIEW_TEXTS[rating])
        value: dict[str, object] = {
            "review_id": f"R{booking_number}",
            "booking_id": f"B{booking_number}",
            "review_rating": rating,
            "review_text": None if self._random.random() < REVIEW_WITHOUT_TEXT else text,
            "created_at": now,
        }
        return record_at(now, REVIEWS, f"R{booking_number}", value)
