"""Scenarios of tools for engineers and for knowledge: repositories, files, databases, notes, graphs, backups, searches, incidents."""

from dataclasses import replace
from typing import Any

from tests.recording.session_recorder import SessionRecorder
from tests.recording.session_spelling import Meant, prose, template
from tests.recording.session_values import COMPANIES, PRODUCTS, TOPICS, TROUBLES, Thing, Values

DATE_STYLES = ("iso", "iso", "millis", "epoch", "offset")
DIRECTORIES = ("src", "src/app", "docs", "reports/2026", "/srv/data/exports", "config", "/home/ada/notes")
FILES = ("main.py", "README.md", "settings.yaml", "orders.csv", "index.ts", "report-q1.txt", "users.json", "todo.md", "schema.sql", "notes.txt")


def issue_triage(v: Values) -> SessionRecorder:
    """Lists open issues of a repository, reads one, labels it, assigns it and comments."""
    owner, name = v.one(("acme", "northwind", "umbra-health")), v.one(("shop-web", "billing-api", "mobile"))
    repository = v.thing("repository", owner=owner, name=name, full_name=f"{owner}/{name}")
    split = v.chance(0.6)
    said = repository.some("owner", "name") if split else {"repository": repository["full_name"]}
    r = SessionRecorder(
        v, said, prose("Triage the newest issue of ", repository["owner"], "/", repository["name"]) if split else prose("Triage ", repository["full_name"])
    )
    where = {"owner": repository["owner"], "repo": repository["name"]} if split else {"repository": repository["full_name"]}
    topics = v.some(TOPICS, 2, 8)
    first = v.count(2, 9000)
    people = [v.thing("author", login=f"{v.name()[0].lower()}{v.one(('dev', '-io', '42', 'x'))}", id=v.count(10_000, 9_999_999)) for _ in topics]
    issues = [
        v.thing(
            "issue",
            number=first + 3 * index + v.count(0, 2),
            id=v.count(10**8, 10**9),
            title=f"{topic.capitalize()} {v.one(TROUBLES)}",
            author=person["login"],
            created=v.instant(-60, -1),
        )
        for index, (topic, person) in enumerate(zip(topics, people, strict=True))
    ]
    style = v.style("time", DATE_STYLES)
    rows = [
        {
            **issue.some("id", "number", "title"),
            "state": "open",
            "user": person.some("login", "id"),
            "labels": [],
            "comments": v.count(0, 9),
            "created_at": issue["created"].dated(style),
        }
        for issue, person in zip(issues, people, strict=True)
    ]
    r.call(
        "list_issues",
        {**where, "state": "open", "per_page": v.one((30, 50, 100)), "page": 1},
        v.one((rows, {"items": rows, "total_count": len(rows), "incomplete_results": False})),
    )
    chosen = v.count(0, len(issues) - 1)
    issue, number = issues[chosen], issues[chosen]["number"]
    commit = v.thing("commit", sha=v.hexadecimal(40))
    text = prose("Steps: open the page, wait. Since ", commit["sha"].written(commit["sha"].value[:7]), " it ", v.one(TROUBLES), ".")
    r.call("get_issue", {**where, "issue_number": number}, {**rows[chosen], "body": text, "milestone": None, "locked": False})
    if v.chance(0.5):
        r.call(
            "get_commit",
            {**where, "sha": commit["sha"].written(commit["sha"].value[:7])},
            {"sha": commit["sha"], "author": people[0]["login"], "files": [{"path": "src/app.py", "changes": v.count(1, 80)}]},
        )
    if v.chance(0.5):
        old = v.thing("duplicate", number=v.count(1, max(1, first - 1)), title=f"{topics[chosen].capitalize()} broken")
        query = v.one((v.made(f"is:closed {topics[chosen]} regression"), prose("repo:", repository["full_name"], f" is:closed {topics[chosen].split()[-1]}")))
        if isinstance(query, Meant) or not split:
            r.call("search_issues", {"q": query, "per_page": 10}, {"total_count": 1, "items": [{**old.some("number", "title"), "state": "closed"}]})
            if v.chance(0.6):
                r.call(
                    "add_comment",
                    {**where, "issue_number": number, "body": prose("Possibly the same as #", old["number"], ".")},
                    {"id": v.count(10**8, 10**9), "created_at": v.today()},
                )
    r.call("add_labels", {**where, "issue_number": number, "labels": v.some(("bug", "needs-triage", "p1", "regression"), 1, 2)}, [{"name": "bug"}])
    if v.chance(0.6):
        maintainers = [v.thing("maintainer", login=f"{v.name()[0].lower()}-{v.one(('core', 'web', 'ops'))}", load=v.count(0, 12)) for _ in range(v.count(1, 4))]
        r.call(
            "list_collaborators",
            {**where, "permission": "push"},
            {"collaborators": [{"login": one["login"], "open_issues": one["load"]} for one in maintainers]},
        )
        who = v.one(maintainers)
        r.call("assign_issue", {**where, "issue_number": number, "assignees": [who["login"]]}, {"number": number, "assignees": [who["login"]]})
        comment: Any = prose("Thanks @", issue["author"], "! @", who["login"], " will look into it.")
    else:
        comment = v.one(
            (prose("Thank you @", issue["author"], ", we can reproduce this."), v.made("Thank you for the report; could you tell us your browser version?"))
        )
    r.call(
        "add_comment",
        {**where, "issue_number": number, "body": comment},
        {"id": v.count(10**8, 10**9), "html_url": f"https://git.example/c/{v.count(1000, 99999)}"},
    )
    if v.chance(0.3):
        r.call(
            "fetch",
            {"url": template("https://api.git.example/repos/", repository["full_name"], "/issues/", number, "/timeline")}
            if not split
            else {"url": template("https://api.git.example/repos/", repository["owner"], "/", repository["name"], "/issues/", number)},
            {"status": 200, "body": "[]"},
        )
    return r


def file_editing(v: Values) -> SessionRecorder:
    """Lists a directory, reads files, and writes, copies or moves them."""
    directory = v.thing("directory", path=v.one(DIRECTORIES))["path"]
    r = SessionRecorder(v, {"directory": directory}, prose("Tidy up ", directory, " please"))
    files = [v.thing("file", name=name, size=v.count(10, 90_000), path=f"{directory.value}/{name}") for name in v.some(FILES, 2, 7)]
    has_paths = v.chance(0.4)
    named = [file.some("path", "size") if has_paths else {**file.some("name", "size"), "type": "file"} for file in files]
    r.call("list_directory", {"path": directory, "recursive": False}, {"entries": named, "count": len(named)} if v.chance(0.6) else named)

    def path_of(file: Thing) -> Any:
        return file["path"] if has_paths else template(directory, "/", file["name"])

    contents = []
    for file in v.some(files, 1, 3):
        subject = v.one(TOPICS)
        body = v.thing(
            "content", text=f"# {subject.title()}\n\nversion: {v.count(1, 9)}.{v.count(0, 20)}\nowner: {v.one(COMPANIES)}\n- the {subject} {v.one(TROUBLES)}\n"
        )["text"]
        r.call(
            "read_file", {"path": path_of(file), "encoding": "utf-8"}, {"content": body, "encoding": "utf-8", "size": file["size"]} if v.chance(0.7) else body
        )
        contents.append((file, body))
    file, body = v.one(contents)
    match v.one(("backup", "rewrite", "move", "rewrite")):
        case "backup":
            r.call(
                "write_file",
                {
                    "path": v.one(
                        (
                            prose_path(file, directory, ".bak", has_paths=has_paths),
                            template("backup/", v.one((file["name"],))) if not has_paths else template(file["path"], ".orig"),
                        )
                    ),
                    "content": body,
                },
                {"ok": True, "bytes_written": len(body.value)},
            )
        case "rewrite":
            text = v.made(body.value.replace("version: ", "release: ") + "\nReviewed.\n")
            r.call("write_file", {"path": path_of(file), "content": text, "overwrite": True}, {"ok": True, "bytes_written": len(text.value)})
        case _:
            archive = v.thing("archive", path=f"{directory.value}/archive")["path"]
            r.call("create_directory", {"path": replace(template(directory, "/archive"), meaning=archive.meaning)}, {"created": True, "path": archive})
            target = template(archive, "/", file["name"]) if not has_paths else template(archive, "/", v.made(f"{v.text_of(5)}.old"))
            r.call("move_file", {"source": path_of(file), "destination": target}, {"moved": True})
    if v.chance(0.5):
        summary = v.one(
            (
                v.made(f"Summary: {len(files)} files, of which one was changed."),
                prose("Changed ", file["path"] if has_paths else file["name"], " (", file["size"], " bytes)."),
            )
        )
        r.call("write_file", {"path": template(directory, "/SUMMARY.md"), "content": summary}, {"ok": True, "bytes_written": v.count(20, 200)})
    return r


def prose_path(file: Thing, directory: Meant, suffix: str, *, has_paths: bool) -> Any:
    """The path of a file with a suffix behind it."""
    return template(file["path"], suffix) if has_paths else template(directory, "/", file["name"], suffix)


def git_history(v: Values) -> SessionRecorder:
    """Reads the log of a branch and the diff of a commit, makes a branch and a pull request."""
    path, base = v.thing("checkout", path=f"/srv/repos/{v.one(('shop', 'billing', 'mobile'))}")["path"], v.thing("base", name="main")["name"]
    topic = v.thing("topic", text=v.one(TOPICS))["text"]
    r = SessionRecorder(v, {"repo_path": path, "topic": topic}, prose("Find what broke the ", topic, " in ", path))
    authors = [v.person("author", "usr") for _ in range(3)]
    commits = []
    for _ in range(v.count(3, 9)):
        author = v.one(authors)
        message = f"{v.one(('Fix', 'Add', 'Remove', 'Refactor'))} {v.one(TOPICS)}{v.one(('', f' (#{v.count(10, 999)})'))}"
        sha = v.hexadecimal(40)
        commits.append(v.thing("commit", sha=sha, short=sha[:7], author=author["name"], email=author["email"], at=v.instant(-30, -1), message=message))
    style = v.style("time", DATE_STYLES)
    short = v.chance(0.3)
    log = [
        {"hash": one["sha"].written(one["short"].value) if short else one["sha"], **one.some("author", "email", "message"), "date": one["at"].dated(style)}
        for one in commits
    ]
    as_text = v.chance(0.15)
    listed: Any = log
    if as_text:
        lines: list[str | Meant] = []
        for one in commits:
            lines += ["commit ", one["sha"], "\nAuthor: ", one["author"], " <", one["email"], ">\n\n    ", one["message"], "\n\n"]
        listed = {"text": prose(*lines)}
    r.call("git_status", {"repo_path": path}, {"branch": base, "clean": True, "ahead": 0, "behind": 0, "untracked": []})
    r.call("git_log", {"repo_path": path, "max_count": v.one((10, 20, 50)), "branch": base.or_constant()}, listed)
    chosen = v.one(commits)
    revision = chosen["sha"].written(chosen["short"].value) if short or v.chance(0.25) else chosen["sha"]
    changed = [
        v.thing(
            "change",
            path=f"{v.one(('src', 'lib', 'tests'))}/{v.one(('cart', 'login', 'export', 'cache'))}_{index * 10 + v.count(0, 9)}.py",
            added=v.count(0, 40),
        )
        for index in range(v.count(1, 4))
    ]
    files = v.thing("changes", files=[{"path": one["path"], "added": one["added"], "removed": v.count(0, 20)} for one in changed])["files"]
    r.call(
        "git_show",
        {"repo_path": path, "revision": revision},
        {
            "commit": revision,
            "message": chosen["message"],
            "files": files,
            "diff": "@@ -1,4 +1,5 @@\n-    return 1\n+    return 2\n",
        },
    )
    if v.chance(0.5):
        parent = prose(revision, "~1..", revision) if v.chance(0.5) else revision
        r.call(
            "git_diff",
            {"repo_path": path, "target": parent, "paths": [one["path"] for one in v.some(changed, 1, 2)], "context_lines": 3},
            {"diff": "--- a\n+++ b\n@@ -10,2 +10,2 @@\n"},
        )
    if v.chance(0.3):
        r.call("summarize_changes", {"files": files, "style": "short"}, {"summary": f"Touches {len(changed)} files.", "risk": "low"})
    branch = v.thing("branch", name=f"fix/{topic.value.replace(' ', '-')}-{v.count(1, 99)}")
    name = v.made(branch["name"].value)
    r.call(
        "git_create_branch",
        {"repo_path": path, "branch_name": name, "base_branch": base.or_constant()},
        {"branch": name, "created_from": base, "head": commits[0]["sha"].written(log[0]["hash"].value)},
    )
    edited = v.one(changed)
    r.call("read_file", {"path": template(path, "/", edited["path"])}, {"content": "def total(items):\n    return sum(items)\n", "lines": 2})
    r.call(
        "write_file",
        {"path": template(path, "/", edited["path"]), "content": v.made("def total(items):\n    return sum(item.price for item in items)\n")},
        {"ok": True},
    )
    r.call("git_add", {"repo_path": path, "files": [edited["path"]]}, {"staged": 1})
    made = v.thing("new_commit", sha=v.hexadecimal(40))
    text: Any = v.one((prose("Revert part of ", revision), prose("Fix the ", topic), prose('Revert "', chosen["message"], '"')))
    if as_text:
        text = prose("Fix the ", topic)
    r.call("git_commit", {"repo_path": path, "message": text}, {"commit": made["sha"], "branch": name, "files_changed": 1})
    if v.chance(0.6):
        pull = v.thing("pull", number=v.count(10, 4000), url=f"https://git.example/pulls/{v.count(10, 4000)}")
        body = v.one(
            (prose("Fixes what ", revision, " by ", chosen["author"], " broke in ", edited["path"], "."), v.made("This restores the earlier behavior."))
        )
        r.call(
            "create_pull_request",
            {"head": name, "base": base.or_constant(), "title": prose("Fix ", topic), "body": body, "draft": False},
            {"number": pull["number"], "html_url": pull["url"], "state": "open"},
        )
        r.call(
            "request_review",
            {"pull_number": pull["number"], "reviewers": [chosen["email"]]},
            {"number": pull["number"], "requested": 1},
        )
    return r


def database_pages(v: Values) -> SessionRecorder:
    """Looks at tables, pages through rows by a cursor or a number, and updates some."""
    table = v.thing("table", name=v.one(("customers", "subscriptions", "devices")), rows=v.count(200, 90_000))
    journal = v.thing("table", name="audit_log")
    region = v.thing("region", name=v.one(("emea", "apac", "latam")))
    r = SessionRecorder(v, {"region": region["name"]}, prose("Extend what expires in the region ", region["name"]))
    r.call(
        "list_tables",
        {"schema": "public"},
        {"tables": [{"name": table["name"], "rows": table["rows"]}, {"name": journal["name"], "rows": v.count(1000, 10**6)}]},
    )
    columns = [
        {"name": name, "type": kind, "nullable": False}
        for name, kind in (("id", "bigint"), ("email", "text"), ("expires_at", "timestamptz"), ("balance", "numeric"))
    ]
    if v.chance(0.7):
        r.call("describe_table", {"table": table["name"], "schema": "public"}, {"columns": columns, "primary_key": "id"})
    style, money = v.style("time", (*DATE_STYLES, "day")), v.style("money", ("cents", "decimal", "text"))
    by_cursor = v.chance(0.6)
    size = v.one((3, 4, 5))
    rows: list[Thing] = []
    wholes: dict[str, Meant] = {}
    following: Meant | None = None
    for page in range(1, v.count(1, 3) + 1):
        numbers = [
            v.thing("row", id=v.count(1000, 99_999), email=f"{v.name()[0].lower()}{v.count(1, 999)}@{v.domain()}", expires=v.instant(1, 60), balance=v.cents())
            for _ in range(size)
        ]
        rows += numbers
        for row in numbers:
            listed = {**row.some("id", "email"), "region": region["name"], "expires_at": row["expires"].dated(style), "balance": row["balance"].amount(money)}
            wholes[row.meaning] = Meant(listed, f"{row.meaning} as a whole")
        arguments: dict[str, Any] = {"table": table["name"], "filter": {"region": region["name"]}, "limit": size}
        if following is not None:
            arguments["cursor" if by_cursor else "page"] = following
        following = v.thing("cursor", value=v.text_of(20) + "==" if by_cursor else page + 1)["value"]
        r.call(
            "query_rows",
            arguments,
            {"rows": [wholes[row.meaning] for row in numbers], "row_count": size, ("next_cursor" if by_cursor else "next_page"): following, "has_more": True},
        )
    match v.one(("each", "batch", "sql")):
        case "each":
            for row in v.some(rows, 1, 3):
                r.call(
                    "update_row",
                    {
                        "table": table["name"],
                        "id": v.one((row["id"], row["id"], row["id"].text())),
                        "set": {"status": "extended", "note": v.one((prose("extended for ", row["email"]), v.made("extended on request")))},
                        "returning": True,
                    },
                    {"updated": 1, "row": {**row.some("id", "email"), "status": "extended"}},
                )
        case "batch":
            picked = v.some(rows, 2, 6)
            r.call("update_rows", {"table": table["name"], "ids": [row["id"] for row in picked], "set": {"status": "extended"}}, {"updated": len(picked)})
        case _:
            row = v.one(rows)
            sql = prose("UPDATE ", table["name"], " SET status = 'extended' WHERE id = ", row["id"], " AND region = '", region["name"], "'")
            r.call("execute_sql", {"sql": sql, "timeout_ms": 5000}, {"rows_affected": 1, "duration_ms": v.count(1, 80)})
            day = row["expires"].dated("day")
            count = prose("SELECT count(*) FROM ", table["name"], " WHERE expires_at >= '", day, "' AND email = '", row["email"], "'")
            r.call("execute_sql", {"sql": count, "timeout_ms": 5000}, {"rows": [[1]], "duration_ms": v.count(1, 80)})
    if v.chance(0.6):
        row = v.one(rows)
        balance = row["balance"].amount(v.one(("cents", "decimal", "text")))
        subject: dict[str, Any] = {"before": wholes[row.meaning]} if v.chance(0.5) else {"subject_id": row["id"], "balance": balance}
        r.call(
            "insert_row",
            {"table": journal["name"], "values": {**subject, "actor": "assistant", "at": v.made(v.today())}},
            {"inserted": 1, "id": v.count(10**6, 10**7)},
        )
    return r


def web_notes(v: Values) -> SessionRecorder:
    """Searches the web, fetches pages, and makes notes of them."""
    topic = v.one(TOPICS)
    folder = v.thing("folder", name=v.one(("Research", "Reading list", "Inbox")))
    asked = v.thing("request", topic=topic)
    r = SessionRecorder(v, {"topic": asked["topic"], "notebook": folder["name"]}, prose("Collect sources about the ", asked["topic"], " in ", folder["name"]))
    slugs = v.some(("design-notes", "postmortem", "faq", "changelog", "deep-dive", "benchmarks"), 2, 5)
    pages = [
        v.thing(
            "page",
            url=f"https://{v.domain()}/blog/{v.count(2019, 2026)}/{slug}-{v.count(1, 99)}",
            title=f"{topic.capitalize()}: {slug.replace('-', ' ')}",
            day=v.instant(-900, -5),
        )
        for slug in slugs
    ]
    query = v.one(
        (
            asked["topic"],
            prose(asked["topic"], " best practices common mistakes"),
            prose(asked["topic"], " comparison 2026"),
            prose('"', asked["topic"], '" postmortem'),
        )
    )
    style = v.style("time", (*DATE_STYLES, "day", "us_words"))
    r.call(
        "web_search",
        {"query": query, "count": v.one((5, 10)), "safe": True},
        {
            "results": [
                {**page.some("url", "title"), "snippet": f"All about the {v.one(TOPICS)} and more.", "published": page["day"].dated(style)} for page in pages
            ]
        },
    )
    notes = []
    if v.chance(0.7):
        shelf = v.thing("notebook", id=v.id("notebook", "nb"))
        r.call(
            "list_notebooks",
            {},
            {
                "notebooks": [
                    {"id": shelf["id"], "name": folder["name"], "notes": v.count(0, 50)},
                    {"id": v.id("notebook", "nb"), "name": "Archive", "notes": 3},
                ]
            },
        )
        where: dict[str, Any] = {"notebook_id": shelf["id"]}
    else:
        where = {"notebook": folder["name"]}
    for page in v.some(pages, 1, 3):
        if v.chance(0.08):
            r.failed_call("fetch", {"url": template(page["url"], ".html"), "max_length": 5000})
        author = v.person("writer", "usr")
        quoted = f"The {topic} {v.one(TROUBLES)}"
        claim = v.thing("claim", text=quoted)["text"]
        body = prose(page["title"], "\n\nBy ", author["name"], "\n\n", claim, " when the load is high. Teams report fewer problems after a rewrite.")
        r.call(
            "fetch",
            {"url": page["url"], "max_length": 5000},
            {"url": page["url"], "status": 200, "title": page["title"].written(f" {page['title'].value} "), "author": author["name"], "text": body},
        )
        text = v.one(
            (
                v.made(f"Main point: problems with the {topic.split()[-1]} appear under load; a rewrite helped."),
                prose("Source: ", page["url"], "\nAuthor: ", author["name"], "\n\nProblems appear under load."),
                prose("[", page["title"], "](", page["url"], ") of ", page["day"].dated(v.one(("words", "us_words", "day")))),
                prose("> ", claim, "\n\nInteresting for us."),
            )
        )
        note = v.thing("note", id=v.id("note", "note"), url=f"notes://{v.text_of(8)}")
        r.call(
            "create_note",
            {**where, "title": page["title"], "content": text, "tags": ["web", "auto"]},
            {"note": {**note.some("id", "url"), "version": 1, "created": v.today()}},
        )
        notes.append((note, page))
    if v.chance(0.5):
        note, page = v.one(notes)
        r.call(
            "append_to_note",
            {"note_id": note["id"], "text": v.one((prose("See also ", notes[-1][1]["url"]), v.made("Follow up next week.")))},
            {"id": note["id"], "version": 2},
        )
    if len(notes) > 1:
        r.call("create_index", {**where, "title": prose("Index: ", asked["topic"]), "links": [note["url"] for note, _ in notes]}, {"id": v.id("note", "note")})
    return r


def memory_graph(v: Values) -> SessionRecorder:
    """Searches a graph of what is known, and adds entities, relations and observations."""
    person, company = v.person("contact", "usr"), v.thing("company", name=v.one(COMPANIES))
    said = {"person": person["name"], "company": company["name"]}
    r = SessionRecorder(v, said, prose("Remember that ", person["name"], " now works at ", company["name"]))
    known = v.thing("node", key=f"{v.one(('project', 'team', 'product'))}_{v.one(TOPICS).replace(' ', '_')}", title=v.one(PRODUCTS))
    fact = v.thing("fact", text=f"likes the {v.one(PRODUCTS)}")
    old = [
        {"name": known["key"], "entityType": "project", "observations": [f"started in {v.count(2018, 2025)}", fact["text"]]},
        {"name": v.one(("billing_team", "platform_team")), "entityType": "team", "observations": []},
    ]
    r.call(
        "search_nodes", {"query": v.one((person["name"], company["name"], v.made(f"who is working on {v.one(TOPICS)}")))}, {"entities": old, "relations": []}
    )
    if v.chance(0.5):
        r.call(
            "open_nodes",
            {"names": [known["key"]]},
            {"entities": [old[0]], "relations": [{"from": known["key"], "to": "billing_team", "relationType": "owned_by"}]},
        )
    key = v.made(person["name"].value.lower().replace(" ", "_").replace("'", "")) if v.chance(0.3) else person["name"]
    entities = [
        {"name": key, "entityType": "person", "observations": [v.one((prose("works at ", company["name"]), v.made("met at a conference")))]},
        {"name": company["name"], "entityType": "organization", "observations": []},
    ]
    r.call(
        "create_entities", {"entities": entities}, {"created": [{"name": key, "entityType": "person"}, {"name": company["name"], "entityType": "organization"}]}
    )
    relations: list[Any] = [{"from": key, "to": company["name"], "relationType": "works_at"}]
    if v.chance(0.6):
        relations.append({"from": key, "to": known["key"], "relationType": "contributes_to"})
    r.call("create_relations", {"relations": relations}, {"created": len(relations), "skipped": 0})
    contents = [v.one((fact["text"], v.made("prefers short meetings"), prose(person["name"], " ", fact["text"])))]
    r.call("add_observations", {"observations": [{"entityName": v.one((key, known["key"])), "contents": contents}]}, {"added": 1})
    if v.chance(0.3):
        r.call("delete_observations", {"entityName": known["key"], "observations": [fact["text"]]}, {"deleted": 1})
    if v.chance(0.4):
        r.call("read_graph", {}, {"entities": [*old, {"name": key, "entityType": "person", "observations": []}], "relations": relations})
    return r


def backup_cleanup(v: Values) -> SessionRecorder:
    """Lists backups, and deletes the old ones one by one or at once."""
    server = v.thing("server", name=f"db-{v.one(('eu', 'us'))}-{v.count(1, 12)}", days=v.one((7, 14, 30)))
    r = SessionRecorder(
        v,
        {"server": server["name"], "keep_days": server["days"]},
        prose("Delete backups of ", server["name"], " that are older than ", server["days"], " days"),
    )
    style = v.style("time", (*DATE_STYLES, "day"))
    backups = [
        v.thing(
            "backup", id=number, at=v.instant(-120, -1), size=v.count(10**6, 10**9), location=f"s3://backups/{server['name'].value}/{v.hexadecimal(8)}.dump"
        )
        for number in v.ids("backup", "bak", v.size(3, 10))
    ]
    rows = [
        {**backup.some("id", "location"), "created_at": backup["at"].dated(style), "size_bytes": backup["size"], "status": "complete", "server": server["name"]}
        for backup in backups
    ]
    manifest = v.thing("manifest", rows=rows)["rows"]
    r.call(
        "list_backups",
        {"server": server["name"], "status": "complete", "order": "asc", "limit": 100},
        {"backups": manifest, "count": len(rows), "retention_days": v.one((30, 90))},
    )
    old = v.some(backups, 1, 5)
    if v.chance(0.3):
        for backup in old[:2]:
            r.call("get_backup", {"backup_id": backup["id"]}, {**rows[backups.index(backup)], "locked": False, "checksum": v.hexadecimal(32)})
    match v.one(("each", "each", "each", "batch", "location")):
        case "batch":
            r.call(
                "delete_backups",
                {"ids": [backup["id"] for backup in old], "dry_run": True},
                {"would_delete": len(old), "ids": [backup["id"] for backup in old]},
            )
            r.call("delete_backups", {"ids": [backup["id"] for backup in old], "dry_run": False}, {"deleted": len(old)})
        case "location":
            for backup in old:
                r.call("delete_object", {"uri": backup["location"], "force": False}, {"deleted": True})
        case _:
            for backup in old:
                r.call("delete_backup", {"backup_id": backup["id"], "confirm": True}, {"id": backup["id"], "deleted": True, "freed_bytes": backup["size"]})
    if v.chance(0.25):
        r.call("write_manifest", {"path": template("manifests/", server["name"], ".json"), "entries": manifest, "pretty": True}, {"ok": True})
    last = old[-1]
    text = v.one(
        (
            v.made(f"Deleted {len(old)} old backups; the newest ones are kept."),
            prose("Deleted backups of ", server["name"], " up to ", last["at"].dated(v.one(("words", "day", "us_words"))), "."),
            prose("Removed ", last["id"], " (", last["size"], " bytes) on ", server["name"]),
        )
    )
    r.call("post_message", {"channel": v.one(("#ops", "#backups")), "text": text}, {"ok": True, "ts": f"{v.count(10**9, 2 * 10**9)}.{v.count(1000, 9999)}"})
    return r


def written_searches(v: Values) -> SessionRecorder:
    """Searches documents by queries that the model writes, reads some, and answers in a summary."""
    question = v.thing("question", text=f"Why does the {v.one(TOPICS)} fail when the {v.one(TOPICS)} is on?", space=v.one(("ENG", "OPS", "HR")))
    r = SessionRecorder(v, {"question": question["text"], "space": question["space"]}, prose("In the space ", question["space"], ": ", question["text"]))
    documents = [
        v.thing(
            "document",
            id=number,
            title=f"{v.one(('Guide', 'Runbook', 'Decision'))}: {v.one(TOPICS)}",
            score=v.count(10, 99) / 100,
            url=f"https://wiki.example/{v.count(1000, 99_999)}",
        )
        for number in v.ids("document", "doc", v.size(3, 8))
    ]
    for number in range(v.count(1, 3)):
        query = v.one(
            (
                v.made(f"{v.one(TOPICS)} {v.one(('failure', 'limits', 'setup', 'owner'))}"),
                v.made(f"{v.one(TOPICS)} AND {v.one(TOPICS)}"),
                question["text"] if number == 0 else v.made("known problems of releases"),
            )
        )
        hits = v.some(documents, 1, 5) if number else documents
        r.call(
            "search_documents",
            {"query": query, "space": question["space"], "top_k": v.one((5, 10)), "rerank": True},
            {"hits": [hit.whole("id", "title", "score") for hit in hits], "total": len(hits), "took_ms": v.count(5, 90)},
        )
    read = v.some(documents, 1, 3)
    for document in read:
        if v.chance(0.1):
            r.failed_call("get_document", {"document_id": v.made(f"doc-{v.count(1, 9)}")})
        r.call(
            "get_document",
            {"document_id": document["id"]},
            {
                **document.some("id", "title", "url"),
                "version": v.count(1, 30),
                "updated": v.today(),
                "text": f"The {v.one(TOPICS)} {v.one(TROUBLES)}. Restart the worker first.",
            },
        )
    by_id: list[Any] = [{"document_id": one["id"], "title": one["title"]} for one in read]
    cited = v.one((by_id, [one["url"] for one in read], [one.whole("id", "title", "score") for one in read]))
    answer = v.made(f"Both share a worker; restart it first. {v.one(('High', 'Medium'))} confidence.")
    body = v.one((answer, prose("Restart the worker first; see ", read[0]["title"], " (", read[0]["url"], ").")))
    r.call(
        "save_answer",
        {"question": question["text"], "answer": body, "sources": cited, "confidence": v.one((0.5, 0.8, 0.9)), "language": "en"},
        {"answer_id": v.id("answer", "ans"), "saved": True},
    )
    return r


def incident_response(v: Values) -> SessionRecorder:
    """Looks at alerts, logs and deployments, rolls one back, opens an incident and tells people."""
    service = v.thing("service", name=v.one(("checkout", "search-api", "billing-worker", "gateway")), env=v.one(("production", "staging")))
    r = SessionRecorder(
        v, {"service": service["name"], "environment": service["env"]}, prose("Look into the alerts of ", service["name"], " in ", service["env"])
    )
    style = v.style("time", (*DATE_STYLES, "epoch_ms"))
    alert = v.thing(
        "alert", id=v.id("alert", "alr"), name=v.one(("HighErrorRate", "LatencyP99", "QueueDepth")), since=v.instant(0, 0), value=v.count(101, 999) / 10
    )
    others = [
        {"id": number, "name": "DiskSpace", "severity": "low", "fired_at": v.instant(-9, -1), "value": v.count(1, 90)}
        for number in v.ids("alert", "alr", v.size(0, 3))
    ]
    row = {
        **alert.some("id", "name", "value"),
        "severity": v.one(("critical", "high")),
        "fired_at": alert["since"].dated(style),
        "labels": {"service": service["name"], "env": service["env"]},
    }
    r.call("list_alerts", {"service": service["name"], "state": "firing", "limit": 20}, {"alerts": [row, *others], "total": 1 + len(others)})
    trace = v.thing("trace", id=v.hexadecimal(32))
    start = alert["since"].dated(v.one((style, "iso", "epoch_ms")))
    logs = [
        {"ts": v.instant(0, 0), "level": "error", "message": f"{v.one(TOPICS)} {v.one(TROUBLES)}", "trace_id": trace["id"]},
        {"ts": v.instant(0, 0), "level": "info", "message": "started", "trace_id": None},
    ]
    query = v.one(
        (
            template("service:", service["name"], " level:error"),
            template("{app=", service["name"], ",env=", service["env"], "} |= error"),
            v.made("level:error timeout"),
        )
    )
    r.call("search_logs", {"query": query, "from": start, "limit": 100, "order": "desc"}, {"lines": logs, "matched": v.count(2, 4000), "limit": 100})
    if v.chance(0.5):
        r.call(
            "get_trace",
            {"trace_id": trace["id"]},
            {
                "trace_id": trace["id"],
                "spans": [{"name": "GET /cart", "ms": v.count(1, 9000)}, {"name": "db", "ms": v.count(1, 9000)}],
                "service": service["name"],
            },
        )
    deployments = [
        v.thing("deployment", id=number, version=f"v{v.count(1, 4)}.{v.count(0, 30)}.{v.count(0, 9)}", at=v.instant(-9, 0), who=v.name()[0].lower())
        for number in v.ids("deployment", "dep", v.count(2, 5))
    ]
    listed = [
        {**one.some("id", "version"), "deployed_at": one["at"].dated(style), "author": one["who"], "status": "live" if one is deployments[0] else "superseded"}
        for one in deployments
    ]
    r.call("list_deployments", {"service": service["name"], "environment": service["env"], "limit": 5}, {"deployments": listed})
    new, earlier = deployments[0], deployments[1]
    if v.chance(0.6):
        target: dict[str, Any] = v.one(({"deployment_id": earlier["id"]}, {"to_version": earlier["version"]}, {"from": listed[0]["id"], "to": listed[1]["id"]}))
        r.call(
            "rollback",
            {
                "service": service["name"],
                **target,
                "reason": v.one((prose(alert["name"], " since ", new["version"]), v.made("error rate after the last release"))),
                "wait": True,
            },
            {"ok": True, "version": earlier["version"], "duration_s": v.count(20, 200)},
        )
    incident = v.thing("incident", key=f"INC-{v.count(100, 9999)}", url=f"https://incidents.example/{v.text_of(7)}")
    details: dict[str, Any] = {
        "service": service["name"],
        "started_at": alert["since"].dated(v.one((style, "iso", "offset"))),
        "alert_ids": [alert["id"]],
        "severity": "sev2",
    }
    title = v.one((prose(alert["name"], " on ", service["name"]), v.made("Elevated errors after a release")))
    if v.chance(0.3):
        details["context"] = {"deployment": new.some("id", "version"), "value": alert["value"]}
    r.call("create_incident", {"title": title, **details}, {"incident": {**incident.some("key", "url"), "status": "open", "opened_on": v.today()}})
    oncall = v.person("responder", "usr", phone=v.phone())
    if v.chance(0.6):
        profile = oncall.whole("id", "name", "email", "phone")
        r.call("get_on_call", {"schedule": prose(service["name"], "-primary"), "at": "now"}, {"user": profile, "until": v.instant(1, 2)})
        r.call(
            "page_user",
            v.one(
                (
                    {"user": profile, "incident": incident["key"]},
                    {"user_id": oncall["id"], "incident": incident["key"], "urgent": True},
                    {"phone": oncall["phone"], "text": prose(incident["key"], ": please help")},
                )
            ),
            {"paged": True},
        )
    text = prose(incident["key"], ": ", service["name"], " ", v.one((v.made("is recovering after a rollback"), alert["name"])), " ", incident["url"])
    r.call("post_message", {"channel": "#incidents", "text": text, "unfurl": False}, {"ok": True})
    r.call(
        "acknowledge_alert",
        {"alert_id": alert["id"], "url": template("https://grafana.example/alerting/", alert["id"], "/view"), "minutes": 30},
        {"id": alert["id"], "state": "acknowledged"},
    )
    return r


ENGINEERING: tuple[Any, ...] = (
    *(issue_triage, file_editing, git_history, database_pages, web_notes),
    *(memory_graph, backup_cleanup, written_searches, incident_response),
)
