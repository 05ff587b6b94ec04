"""Doubles of the bank and the warehouse. They remember what they have done by its key, and report it to the world, which knows what may happen only once."""

from perdure.testing import World


class Outside:
    """The bank and the warehouse."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.stock = {"Emma": 2, "Persuasion": 1}
        self.reserved: dict[str, str] = {}
        self.transfers: dict[str, int] = {}
        self.failures: list[Exception] = []

    def transfer(self, key: str, cents: int) -> str:
        if self.failures:
            raise self.failures.pop()
        if self.world.effect("transfer", key=key):
            self.transfers[key] = cents
        return f"payment {list(self.transfers).index(key) + 1}"

    def reserve(self, key: str, title: str) -> bool:
        if key not in self.reserved and not self.stock.get(title):
            return False
        if self.world.effect("reserve", key=key):
            self.reserved[key] = title
            self.stock[title] -= 1
        return True

    def release(self, key: str) -> None:
        if self.world.effect("release", key=key):
            self.stock[self.reserved.pop(key)] += 1
