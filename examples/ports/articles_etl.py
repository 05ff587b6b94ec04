"""Prefect's ETL over an API of articles: pages are fetched concurrently with retries and a cache, and a person confirms what is published.

    python examples/ports/articles_etl.py https://dev.to/api 3 articles.csv       # killed, it continues when started again
    perdure approve review-of-articles.csv -i minimum_reactions=10                # elsewhere

The originals are examples/run_api_sourced_etl.py and the guides on concurrency, caching and interactive workflows (docs/v3) of
https://github.com/PrefectHQ/prefect at ce79dd3, Copyright 2019- Prefect Technologies, Inc., Apache-2.0. Rows are plain data here and not a DataFrame.
"""

import csv
import hashlib
import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # a script has only its own directory there

from perdure import Context, Err, ExecutionFailed, Ok, Retry, RetryAfter, Workflow, step, step_info, workflow

DELAYS_S = (2, 5, 15)
PER_PAGE = 30


class User(msgspec.Struct):
    username: str


class Article(msgspec.Struct):
    id: int
    title: str
    published_at: str
    url: str
    comments_count: int
    positive_reactions_count: int
    tag_list: list[str]
    user: User


@dataclass
class Publication:
    minimum_reactions: int = 0
    notes: str = ""


@dataclass
class Report:
    saved: int
    failed_pages: list[int]
    top_tag: str
    notes: str


@step(retry=Retry(max=len(DELAYS_S) + 1), timeout="30s")
def fetch_page(api: str, page: int) -> list[Article]:
    url = f"{api}/articles?page={page}&per_page={PER_PAGE}"
    try:
        with urlopen(Request(url, headers={"User-Agent": "perdure-example"}), timeout=25) as answer:
            return msgspec.json.decode(answer.read(), type=list[Article])
    except (HTTPError, URLError, TimeoutError, ConnectionError) as error:
        wait_s = DELAYS_S[min(step_info().attempt, len(DELAYS_S)) - 1]
        raise RetryAfter(wait_s, f"{url}: {error}") from error


@workflow
async def articles_of(ctx: Context, api: str, page: int) -> list[Article]:
    return await ctx.step(fetch_page, api, page)


def cached_for_a_day(ctx: Context, api: str, page: int) -> Workflow[[str, int], list[Article]]:
    """The child that fetches a page: one for all flows of a day, because its id follows from its input and the date."""
    key = hashlib.sha256(f"{api} {page} {PER_PAGE}".encode()).hexdigest()[:16]
    return articles_of.with_(id=f"{key}-{ctx.now():%Y-%m-%d}", name=f"page {page}", on_cancel="detach")


@step
def to_rows(pages: list[list[Article]]) -> list[list[str | int]]:
    found = [article for page in pages for article in page]
    return [[one.id, one.title, one.published_at, one.comments_count, one.positive_reactions_count, " ".join(one.tag_list), one.user.username] for one in found]


@step
def save_csv(rows: list[list[str | int]], path: str) -> int:
    """Writes the file as a whole, so that a crash leaves the old one or the new one."""
    unfinished = Path(f"{path}.unfinished")
    with unfinished.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "title", "published_at", "comments", "reactions", "tags", "username"])
        writer.writerows(rows)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    return len(rows)


@step
def top_tag(rows: list[list[str | int]]) -> str:
    tags = Counter(tag for row in rows for tag in str(row[5]).split())
    return min(tags, key=lambda tag: (-tags[tag], tag), default="")


@workflow
async def review(ctx: Context, count: int) -> Publication:
    decision = await ctx.approve(f"Publish {count} articles?", name="review", form=Publication, timeout="1h", on_timeout="approve")
    if not decision:
        raise ValueError(f"not published: {decision.comment or 'no comment'}")
    return Publication(notes="no answer in time") if decision.expired else decision.value


@workflow
async def etl(ctx: Context, api: str, pages: int, output: str) -> Report:
    numbers = range(1, pages + 1)
    outcomes = await ctx.map(lambda c, page: c.attempt(cached_for_a_day(c, api, page), api, page), numbers, limit=3)
    rows = await ctx.step(to_rows, [outcome.value for outcome in outcomes if isinstance(outcome, Ok)])
    publication = await ctx.call(review.with_(id=f"review-of-{ctx.execution.id}"), len(rows))
    rows = [row for row in rows if int(row[4]) >= publication.minimum_reactions]
    done = await ctx.join(saved=lambda c: c.step(save_csv, rows, output), tag=lambda c: c.step(top_tag, rows))
    failed = [page for page, outcome in zip(numbers, outcomes, strict=True) if isinstance(outcome, Err)]
    return Report(done.saved, failed, done.tag, publication.notes)


def main(arguments: Sequence[str]) -> int:
    """Runs the flow to its end. The name of the file is its id, so the flow runs once for a file."""
    if len(arguments) != 3 or not arguments[1].isdecimal():
        print("articles_etl.py takes API PAGES FILE, such as https://dev.to/api 3 articles.csv", file=sys.stderr)
        return 2
    api, pages, output = arguments
    try:
        print(etl.with_(id=Path(output).name).run(api, int(pages), output))
    except ExecutionFailed as failed:
        print(f"{failed.error.type}: {failed.error.message}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
