"""The words the generators draw from. All of it is invented; no entry is a real person or card."""

from __future__ import annotations

FIRST_NAMES = (
    "Ada", "Amir", "Bea", "Carlos", "Chloe", "Dana", "Elif", "Emil", "Farah", "Felix",
    "Grace", "Hana", "Hugo", "Ines", "Ivan", "Jonas", "Kira", "Leo", "Mara", "Mei",
    "Nadia", "Noah", "Olga", "Omar", "Priya", "Rosa", "Sami", "Tara", "Viktor", "Yuki",
)  # fmt: skip

LAST_NAMES = (
    "Almeida", "Becker", "Castillo", "Dubois", "Eriksen", "Fischer", "Garcia", "Haddad",
    "Ivanova", "Jensen", "Kaya", "Larsen", "Meyer", "Nakamura", "Okafor", "Park", "Quinn",
    "Rossi", "Silva", "Tanaka", "Ueda", "Varga", "Weber", "Xu", "Yilmaz", "Zeller",
)  # fmt: skip

CITIES = (
    ("Lisbon", "Portugal"), ("Porto", "Portugal"), ("Vienna", "Austria"), ("Graz", "Austria"),
    ("Lyon", "France"), ("Nantes", "France"), ("Osaka", "Japan"), ("Kyoto", "Japan"),
    ("Bergen", "Norway"), ("Toronto", "Canada"), ("Montreal", "Canada"), ("Izmir", "Turkey"),
    ("Cologne", "Germany"), ("Dresden", "Germany"), ("Seville", "Spain"), ("Cusco", "Peru"),
)  # fmt: skip

BRANDS = ("Alpenglow", "Bluefin", "Cobalt", "Driftwood", "Emberline", "Fernway")

PRODUCT_NAMES = (
    ("Trail Backpack", "outdoor"), ("Rain Jacket", "outdoor"), ("Camping Stove", "outdoor"),
    ("Running Shoes", "sport"), ("Yoga Mat", "sport"), ("Bike Helmet", "sport"),
    ("Desk Lamp", "home"), ("Coffee Grinder", "home"), ("Wool Blanket", "home"),
    ("Headphones", "electronics"), ("Smart Watch", "electronics"), ("Power Bank", "electronics"),
)  # fmt: skip

SALES_CHANNELS = ("web", "mobile", "store")

HOTEL_NAMES = (
    "Riverside", "Old Mill", "Lighthouse", "Grand Quay", "Willow Bend", "Stone Bridge",
    "Harbour View", "Ferryman", "Delta", "Twin Falls", "Boathouse", "Watermark",
)  # fmt: skip

HOTEL_CATEGORIES = {
    "budget": "Simple rooms, close to the station.",
    "business": "Quiet desks, fast network, early breakfast.",
    "family": "Connected rooms, a pool and a playground.",
    "luxury": "Suites over the water and a kitchen of renown.",
}

BROWSING_ACTIONS = ("search", "view_hotel", "view_photos", "check_rates", "read_reviews")

USER_AGENTS = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) Firefox/146.0",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 14_5) Safari/605.1.15",
    "Mozilla/5.0 (X11; Linux x86_64) Chrome/143.0",
    "RiverHotelsApp/4.2 (Android 16)",
    "RiverHotelsApp/4.2 (iOS 19.1)",
)

REVIEW_TEXTS = {
    1: ("The room was cold and nobody came.", "Not what the photos promised."),
    2: ("Loud at night, but the staff tried.", "The shower never got warm."),
    3: ("Fine for one night.", "Good location, plain breakfast."),
    4: ("Friendly people and a lovely view.", "Would come again in summer."),
    5: ("The best stay of our trip!", "Everything was perfect, down to the tea."),
}
