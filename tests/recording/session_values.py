"""Random values as tools of companies return them, drawn from a seed."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, TypeVar

from tests.recording.session_spelling import Meant, instant_of, spelled_instant

T = TypeVar("T")

FIRST_NAMES = (
    *("Ada", "Amir", "Beatriz", "Chen", "Chiara", "Daniel", "Elif", "Emeka", "Fatima", "Greta", "Hugo", "Ines", "Jonas", "Kavya", "Lena", "Liam"),
    *("Maja", "Mateo", "Nadia", "Noor", "Oskar", "Priya", "Quinn", "Rosa", "Sanjay", "Sofia", "Tariq", "Uma", "Viktor", "Wanda", "Yusuf", "Zoe"),
)
LAST_NAMES = (
    *("Abadi", "Bakker", "Castillo", "Dubois", "Eriksen", "Fischer", "Gupta", "Haddad", "Ivanova", "Jensen", "Kowalski", "Lindqvist", "Moreau", "Nakamura"),
    *("Okafor", "Petrov", "Quispe", "Rossi", "Schneider", "Tanaka", "Ueda", "Varga", "Weber", "Xu", "Yilmaz", "Zhang", "O'Neill", "van Dijk"),
)
COMPANIES = ("Northwind", "Initrode", "Bluefin Labs", "Acme Tools", "Harbor Foods", "Lumen Optics", "Quarry Street", "Solstice", "Tidewater", "Umbra Health")
CITIES = ("Lisbon", "Berlin", "Chicago", "Osaka", "Nairobi", "Toronto", "Porto", "Denver", "Malmö", "Lyon", "Austin", "Leeds")
STREETS = ("Mill Road", "Hauptstraße", "Station Street", "Rua Augusta", "Elm Avenue", "Harbor Lane", "Kirkegata", "Park Row")
PRODUCTS = (
    *("Trail Backpack 40L", "Ceramic Pour-Over", "USB-C Dock Pro", "Walnut Desk Shelf", "Merino Beanie", "Desk Lamp LX2", "Noise Filter Headset"),
    *("Travel Kettle", "Ergo Mouse M5", "Canvas Tote", "Steel Bottle 750", "Standing Mat", "Wool Blanket", "Espresso Tamper 58", "Bike Light Set"),
)
TOPICS = (
    *("login page", "payment retry", "export to CSV", "search index", "dark mode", "webhook signature", "rate limiter", "session cache", "PDF preview"),
    *("onboarding mail", "audit trail", "file upload", "date picker", "role editor", "image resizer", "currency rounding", "invoice footer"),
)
TROUBLES = (
    "fails with a timeout",
    "shows stale data",
    "ignores the time zone",
    "returns 500",
    "is slow after an upgrade",
    "loses the last row",
    "hangs on Safari",
)
BASE62 = "0123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


class Values:
    """Draws all that is random in one session."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now = datetime(2026, 1, 5, 8, tzinfo=UTC) + timedelta(minutes=self.random.randrange(500_000))
        self._made = 0
        self._styles: dict[str, str] = {}
        self._things = 0

    def chance(self, probability: float) -> bool:
        """True with a probability."""
        return self.random.random() < probability

    def one(self, choices: Sequence[T]) -> T:
        """One of several."""
        return self.random.choice(choices)

    def some(self, choices: Sequence[T], least: int, most: int) -> list[T]:
        """At least `least` and at most `most` different ones of several, in their order."""
        count = min(len(choices), self.random.randint(least, most))
        return [choices[index] for index in sorted(self.random.sample(range(len(choices)), count))]

    def count(self, least: int, most: int) -> int:
        """A number of things."""
        return self.random.randint(least, most)

    def size(self, least: int, most: int) -> int:
        """A number of rows; some lists are long."""
        return self.count(2 * most, 5 * most) if self.chance(0.1) else self.count(least, most)

    def made(self, text: Any) -> Meant:
        """What the model makes up. The same object at two places is the same thing."""
        self._made += 1
        return Meant(text, f"made#{self._made}", made=True)

    def thing(self, kind: str, **fields: Any) -> "Thing":
        """A new thing with named fields."""
        self._things += 1
        return Thing(f"{kind}#{self._things}", fields)

    def style(self, name: str, choices: Sequence[str]) -> str:
        """A choice that holds for the whole session, by the name of what is chosen."""
        return self._styles.setdefault(name, self.one(choices))

    def text_of(self, size: int, alphabet: str = BASE62) -> str:
        """Random characters."""
        return "".join(self.one(alphabet) for _ in range(size))

    def hexadecimal(self, size: int) -> str:
        """Random hexadecimal digits."""
        return self.text_of(size, "0123456789abcdef")

    def uuid(self) -> str:
        """The text of a random UUID."""
        digits = self.hexadecimal(32)
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"

    def id(self, kind: str, prefix: str) -> Any:
        """An id of a kind of thing; all of one kind are alike in a session."""
        match self.style(f"id of {kind}", ("small", "large", "large", "prefixed", "prefixed", "uuid", "digits", "digits", "dashed")):
            case "small":
                return self.count(1, 400)
            case "large":
                return self.count(1_000, 99_999)
            case "prefixed":
                return f"{prefix}_{self.text_of(self.style_size(kind))}"
            case "uuid":
                return self.uuid()
            case "digits":
                return str(self.count(10_000, 9_999_999))
            case _:
                return f"{prefix.upper()}-{self.count(1_000, 99_999)}"

    def style_size(self, kind: str) -> int:
        """How long ids of a kind are."""
        return int(self.style(f"size of {kind}", ("6", "10", "14", "24")))

    def ids(self, kind: str, prefix: str, count: int) -> list[Any]:
        """Different ids of a kind. Some follow each other, and some begin like another."""
        found: list[Any] = []
        while len(found) < count:
            last = found[-1] if found else None
            match last:
                case int() if self.chance(0.3):
                    new: Any = last + 1
                case int() if last < 1_000 and self.chance(0.15):
                    new = last * 100 + last
                case str() if last.isdigit() and self.chance(0.3):
                    new = str(int(last) + 1)
                case _:
                    new = self.id(kind, prefix)
            if new not in found:
                found.append(new)
        return found

    def name(self) -> tuple[str, str]:
        """A first name and a last name."""
        return self.one(FIRST_NAMES), self.one(LAST_NAMES)

    def domain(self) -> str:
        """The domain of a company."""
        return f"{self.one(COMPANIES).lower().replace(' ', '')}.{self.one(('com', 'io', 'example', 'co'))}"

    def person(self, kind: str, prefix: str, **fields: Any) -> "Thing":
        """Somebody with an id, a name and an e-mail address."""
        first, last = self.name()
        local = f"{first}.{last}".lower().replace(" ", "").replace("'", "")
        return self.thing(
            kind,
            id=self.id(kind, prefix),
            name=f"{first} {last}",
            first_name=first,
            last_name=last,
            email=f"{local}{self.one(('', '', self.count(1, 99)))}@{self.domain()}",
            **fields,
        )

    def cents(self, least: int = 300, most: int = 90_000) -> int:
        """An amount in cents; many are round."""
        return self.count(least, most) // 100 * 100 + self.one((0, 0, 50, 99, 95, self.count(0, 99)))

    def instant(self, days_least: int, days_most: int) -> str:
        """ISO text of an instant so many days from now."""
        when = self.now + timedelta(days=self.count(days_least, days_most), minutes=self.count(-300, 300))
        if self.chance(0.4):
            when = when.replace(minute=self.one((0, 0, 15, 30, 45)), second=0)
        return str(spelled_instant(when, "iso"))

    def later(self, instant: str, least: int, most: int) -> str:
        """ISO text of an instant so many minutes after another one, in steps of five."""
        return str(spelled_instant(instant_of(instant) + timedelta(minutes=5 * self.count(least // 5, most // 5)), "iso"))

    def today(self) -> str:
        """ISO text of the day of the session."""
        return str(spelled_instant(self.now, "day"))

    def phone(self) -> str:
        """A telephone number."""
        return f"+{self.one((1, 31, 44, 49, 351))} {self.count(20, 999)} {self.count(100_000, 9_999_999)}"

    def address(self) -> dict[str, Any]:
        """A postal address."""
        return {
            "street": f"{self.count(1, 250)} {self.one(STREETS)}",
            "city": self.one(CITIES),
            "postal_code": str(self.count(10_000, 99_999)),
            "country": self.one(("DE", "PT", "US", "NL", "JP")),
        }


class Thing:
    """Something in the world of the tools. Each of its fields means the same wherever it occurs."""

    def __init__(self, meaning: str, fields: Mapping[str, Any]) -> None:
        self.meaning = meaning
        self._fields = {name: value if isinstance(value, Meant) else Meant(value, f"{meaning}.{name}") for name, value in fields.items()}

    def __getitem__(self, name: str) -> Meant:
        return self._fields[name]

    def some(self, *names: str) -> dict[str, Meant]:
        """The fields with these names, under their names."""
        return {name: self._fields[name] for name in names}

    def whole(self, *names: str) -> Meant:
        """The fields with these names as one structure, which may be passed on as a whole."""
        return Meant(self.some(*names), f"{self.meaning}{{{','.join(names)}}}")
