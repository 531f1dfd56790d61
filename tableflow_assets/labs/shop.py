"""The shift-left lab's dimensions: the shop's products and customers, and how they change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import partial
from itertools import count, product
from random import Random

from tableflow_assets.labs import vocabulary
from tableflow_assets.labs.record import Draft, LabRecord, record_at

CUSTOMERS = "shiftleft.public.customers"
PRODUCTS = "shiftleft.public.products"

OPENING_PRODUCTS = 24
OPENING_CUSTOMERS = 40


@dataclass(frozen=True)
class Product:
    productid: int
    brand: str
    productname: str
    category: str
    price: float


@dataclass(frozen=True)
class Customer:
    customerid: int
    customername: str
    email: str
    city: str
    country: str


class Shop:
    """Who can buy, and what. Each change comes with the draft of its row."""

    def __init__(self, random: Random, first_id: int) -> None:
        self._random = random
        self._customer_ids = count(first_id)
        self.products = self._invent_products(first_id)
        self.customers = [self._invent_customer() for _ in range(OPENING_CUSTOMERS)]

    def opening_rows(self) -> Iterator[Draft]:
        yield from (partial(product_row, product) for product in self.products)
        yield from (partial(customer_row, customer) for customer in self.customers)

    def welcome_customer(self) -> Draft:
        self.customers.append(self._invent_customer())
        return partial(customer_row, self.customers[-1])

    def move_customer(self) -> Draft:
        index = self._random.randrange(len(self.customers))
        city, country = self._random.choice(vocabulary.CITIES)
        self.customers[index] = replace(self.customers[index], city=city, country=country)
        return partial(customer_row, self.customers[index])

    def change_price(self) -> Draft:
        index = self._random.randrange(len(self.products))
        self.products[index] = replace(self.products[index], price=self._invent_price())
        return partial(product_row, self.products[index])

    def _invent_products(self, first_id: int) -> list[Product]:
        combinations = list(product(vocabulary.BRANDS, vocabulary.PRODUCT_NAMES))
        sample = self._random.sample(combinations, OPENING_PRODUCTS)
        return [
            Product(number, brand, name, category, self._invent_price())
            for number, (brand, (name, category)) in enumerate(sample, start=first_id)
        ]

    def _invent_price(self) -> float:
        return round(self._random.uniform(9, 250), 2)

    def _invent_customer(self) -> Customer:
        number = next(self._customer_ids)
        first_name = self._random.choice(vocabulary.FIRST_NAMES)
        last_name = self._random.choice(vocabulary.LAST_NAMES)
        email = f"{first_name}.{last_name}.{number}@shop.example".lower()
        city, country = self._random.choice(vocabulary.CITIES)
        return Customer(number, f"{first_name} {last_name}", email, city, country)


def customer_row(customer: Customer, now: datetime) -> LabRecord:
    return record_at(now, CUSTOMERS, customer.customerid, asdict(customer) | {"updatedat": now})


def product_row(product: Product, now: datetime) -> LabRecord:
    return record_at(now, PRODUCTS, product.productid, asdict(product) | {"updatedat": now})
