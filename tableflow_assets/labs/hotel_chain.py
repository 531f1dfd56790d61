"""The River Hotels lab's dimensions: hotels and customers, as change data capture delivers them.

Each row is the state after the change. The times are text, as the lab's statements parse them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime, timedelta
from functools import partial
from itertools import count
from random import Random

from tableflow_assets.labs import vocabulary
from tableflow_assets.labs.record import Draft, LabRecord, record_at

CUSTOMER = "riverhotel.cdc.customer"
HOTEL = "riverhotel.cdc.hotel"

OPENING_HOTELS = 16
OPENING_CUSTOMERS = 40
NEVER_BOOKS = 0.3


@dataclass(frozen=True)
class Customer:
    email: str
    customer_id: str
    first_name: str
    last_name: str
    birth_date: date


@dataclass(frozen=True)
class Hotel:
    hotel_id: str
    name: str
    category: str
    description: str
    city: str
    country: str
    room_capacity: int
    available_rooms: int


class HotelChain:
    """Who can book, and where. Each change comes with the draft of its row."""

    def __init__(self, random: Random, first_id: int) -> None:
        self._random = random
        self._customer_numbers = count(first_id)
        self._created_at: dict[str, datetime] = {}
        self.prospects: set[str] = set()
        """The emails of those who click but never book."""
        self.customers = [self._invent_customer() for _ in range(OPENING_CUSTOMERS)]
        self.hotels = [self._invent_hotel(first_id + n) for n in range(OPENING_HOTELS)]

    def opening_rows(self) -> Iterator[Draft]:
        yield from (partial(self._hotel_row, hotel) for hotel in self.hotels)
        yield from (partial(self._customer_row, customer) for customer in self.customers)

    def welcome_customer(self) -> Draft:
        self.customers.append(self._invent_customer())
        return partial(self._customer_row, self.customers[-1])

    def rename_customer(self) -> Draft:
        # The email stays: it is the customer's key.
        index = self._random.randrange(len(self.customers))
        last_name = self._random.choice(vocabulary.LAST_NAMES)
        self.customers[index] = replace(self.customers[index], last_name=last_name)
        return partial(self._customer_row, self.customers[index])

    def rename_hotel(self) -> Draft:
        index = self._random.randrange(len(self.hotels))
        hotel = self.hotels[index]
        other_names = [name for name in vocabulary.HOTEL_NAMES if name not in hotel.name]
        name = f"{self._random.choice(other_names)} {hotel.city}"
        self.hotels[index] = replace(hotel, name=name)
        return partial(self._hotel_row, self.hotels[index])

    def recount_rooms(self) -> Draft:
        index = self._random.randrange(len(self.hotels))
        free = self._random.randint(0, self.hotels[index].room_capacity)
        self.hotels[index] = replace(self.hotels[index], available_rooms=free)
        return partial(self._hotel_row, self.hotels[index])

    def _customer_row(self, customer: Customer, now: datetime) -> LabRecord:
        times = self._times(customer.email, now)
        return record_at(now, CUSTOMER, customer.email, asdict(customer) | times)

    def _hotel_row(self, hotel: Hotel, now: datetime) -> LabRecord:
        times = self._times(hotel.hotel_id, now)
        return record_at(now, HOTEL, hotel.hotel_id, asdict(hotel) | times)

    def _times(self, key: str, now: datetime) -> dict[str, object]:
        """``created_at`` is the time of the key's first row; ``updated_at`` is this row's."""
        created_at = self._created_at.setdefault(key, now)
        return {"created_at": cdc_text(created_at), "updated_at": cdc_text(now)}

    def _invent_customer(self) -> Customer:
        number = next(self._customer_numbers)
        first_name = self._random.choice(vocabulary.FIRST_NAMES)
        last_name = self._random.choice(vocabulary.LAST_NAMES)
        email = f"{first_name}.{last_name}.{number}@guest.example".lower()
        birth_date = date(1950, 1, 1) + timedelta(days=self._random.randrange(20_000))
        if self._random.random() < NEVER_BOOKS:
            self.prospects.add(email)
        return Customer(email, f"C{number}", first_name, last_name, birth_date)

    def _invent_hotel(self, number: int) -> Hotel:
        city, country = self._random.choice(vocabulary.CITIES)
        category, description = self._random.choice(list(vocabulary.HOTEL_CATEGORIES.items()))
        rooms = self._random.randint(20, 300)
        return Hotel(
            hotel_id=f"H{number}",
            name=f"{self._random.choice(vocabulary.HOTEL_NAMES)} {city}",
            category=category,
            description=description,
            city=city,
            country=country,
            room_capacity=rooms,
            available_rooms=self._random.randint(0, rooms),
        )


def cdc_text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
