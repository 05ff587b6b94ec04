"""The tools that `claim.yaml` calls, by their names."""

from perdure import step, step_info

SMALL_CENTS = 10_000


@step(idempotent=True)
def look(number: str, cents: int) -> dict[str, bool]:
    """Looks at a claim. Put a call of your own system here."""
    return {"small": cents < SMALL_CENTS}


@step(idempotent=True)  # it may be called again after a crash: with the same key, a payment provider answers as before
def pay(number: str, cents: int) -> str:
    """Pays a claim. Pass `step_info().key` to your payment provider."""
    print(f"paying {cents} cents under {step_info().key}", flush=True)
    return f"paid {cents} cents for claim {number}"
