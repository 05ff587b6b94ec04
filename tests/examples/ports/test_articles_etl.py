"""Prefect's ETL on Perdure, over an API on this machine: retries, cache, input of a person, and the file after kills."""

import csv
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from examples.ports import articles_etl as port
from examples.ports.articles_etl import Publication, Report
from perdure import Client, ExecutionFailed
from perdure.testing import Run, World
from tests.examples.ports.article_server import ArticleServer, article
from tests.examples.ports.processes import Program


@pytest.fixture
def api() -> Iterator[ArticleServer]:
    with ArticleServer().at_work() as server:
        yield server


def saved_ids(file: Path) -> list[int]:
    with file.open(newline="") as opened:
        return [int(row["id"]) for row in csv.DictReader(opened)]


def review_of(world: World, run: Run[Report]) -> Run[Publication]:
    """The subflow of a flow that asks a person."""
    return world.get(f"review-of-{run.id}", port.review)


@pytest.mark.slow
@pytest.mark.perdure(crash_at="every", crashes_max=40)
def test_the_file_has_each_article_once_wherever_the_flow_is_killed(world: World, api: ArticleServer, tmp_path: Path) -> None:
    run = world.start(port.etl, api.url, 2, str(tmp_path / "articles.csv"))
    review_of(world, run).approve(by="ada", value=Publication(2, "the good ones"))
    assert run.result() == Report(40, [], "python", "the good ones")
    assert saved_ids(tmp_path / "articles.csv") == [number for number in range(60) if article(number)["positive_reactions_count"] >= 2]
    assert not (tmp_path / "articles.csv.unfinished").exists()


def test_a_page_that_fails_is_fetched_again_after_two_five_and_fifteen_seconds(world: World, api: ArticleServer) -> None:
    api.failures[1] = 3
    before = world.now
    assert len(world.run(port.articles_of, api.url, 1)) == 30
    assert world.now - before == timedelta(seconds=22)
    assert api.requests[1] == 4


def test_a_page_that_is_never_answered_is_named_in_the_report_and_fails_nothing_else(world: World, api: ArticleServer, tmp_path: Path) -> None:
    api.failures[2] = 4
    run = world.start(port.etl, api.url, 3, str(tmp_path / "articles.csv"))
    world.skip("1m")
    review_of(world, run).approve(by="ada", value=Publication())
    assert run.result() == Report(60, [2], "python", "")
    assert saved_ids(tmp_path / "articles.csv") == [*range(30), *range(60, 90)]


def test_a_failure_is_cached_too_until_somebody_retries_the_child(world: World, api: ArticleServer, tmp_path: Path) -> None:
    api.failures[1] = 4
    for number in (1, 2):
        run = world.start(port.etl.with_(id=f"flow {number}"), api.url, 1, str(tmp_path / "articles.csv"))
        world.skip("1m")
        review_of(world, run).approve(by="ada", value=Publication())
        assert run.result().failed_pages == [1]
    assert api.requests[1] == 4
    (child,) = (one for one in world.runs if one.key.workflow == "articles_of")
    child.retry()
    run = world.start(port.etl.with_(id="flow 3"), api.url, 1, str(tmp_path / "articles.csv"))
    review_of(world, run).approve(by="ada", value=Publication())
    assert run.result().saved == 30


def test_a_page_is_fetched_once_a_day_for_all_flows(world: World, api: ArticleServer, tmp_path: Path) -> None:
    for number, expected in ((1, 1), (2, 1), (3, 2)):
        run = world.start(port.etl.with_(id=f"flow {number}"), api.url, 1, str(tmp_path / f"{number}.csv"))
        review_of(world, run).approve(by="ada", value=Publication())
        assert run.result().saved == 30
        assert api.requests[1] == expected
        world.skip("1h" if number == 1 else "1d")


def test_without_an_answer_everything_is_published_after_an_hour(world: World, api: ArticleServer, tmp_path: Path) -> None:
    before = world.now
    assert world.run(port.etl, api.url, 1, str(tmp_path / "articles.csv")) == Report(30, [], "python", "no answer in time")
    assert timedelta(hours=1) <= world.now - before < timedelta(hours=1, seconds=1)


def test_a_rejection_fails_the_flow_and_writes_nothing(world: World, api: ArticleServer, tmp_path: Path) -> None:
    run = world.start(port.etl, api.url, 1, str(tmp_path / "articles.csv"))
    review_of(world, run).reject(by="ada", comment="too dull")
    with pytest.raises(ExecutionFailed, match="not published: too dull"):
        run.result()
    assert not (tmp_path / "articles.csv").exists()


@pytest.mark.slow
def test_killed_while_it_fetches_and_while_it_waits_for_a_person_it_fetches_no_page_again(api: ArticleServer, tmp_path: Path) -> None:
    api.failures[3] = 1
    program = Program("articles_etl.py", [api.url, "5", "articles.csv"], tmp_path, {})
    program.kill_when(lambda: api.requests[3] == 1 and api.requests[5] == 1, "page 3 waits for its second attempt")
    with Client(f"sqlite:///{tmp_path}/perdure.db") as client:
        program.kill_when(lambda: bool(client.approvals()), "the question to a person")
        fetched = api.requests.copy()
        assert fetched[3] >= 2
        (question,) = client.approvals()
        client.approve(question, by="ada", value=Publication(5, "above five"), wait=False)
    ended = program.finish()
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "Report(saved=100, failed_pages=[], top_tag='python', notes='above five')\n", "")
    assert api.requests == fetched, "what was fetched is in the log"
    assert saved_ids(tmp_path / "articles.csv") == list(range(50, 150))
