"""Applies a patch, in any of its forms, to a definition. The result has the next minor version unless the patch sets one.

::

    [{op: set, id: b, path: /with/y, value: 3}, …]                     operations that name steps by their ids, see `definition_edits`
    [{op: replace, path: /steps/2/with/y, value: 3}, …]                JSON Patch on the canonical form
    [{op: add, path: /nodes/-, value: {...}}, …]                       JSON Patch on its nodes and edges
    {operations: […], description: TEXT}                               one of these, and its reason
    {workflow_tag: NAME, patch_spec: {operations: […], …}}             the same for a named workflow

The nodes and edges of a token graph are those of its document, with all their fields. Of any other definition, the nodes are its steps without `next`, and the
edges ``{from, to, port}`` are those of `next` or `needs`; a new node may be written either way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

from perdure.core.errors import BadDefinition
from perdure.definitions.format import model
from perdure.definitions.format.canonical_form import canonical_document, canonical_value, normalized_copy
from perdure.definitions.format.definition_edits import apply_json_patch, apply_operations, patch_document
from perdure.definitions.format.definition_findings import DefinitionFinding, error_finding, joined_pointer
from perdure.definitions.format.dialect_rules import document_rules
from perdure.definitions.format.step_tree import placed_steps
from perdure.definitions.format.validator import definition_findings
from perdure.dialects.foreign_document import Document
from perdure.dialects.token_graph.document_reader import to_definition
from perdure.dialects.token_graph.document_writer import from_definition

JSON_PATCH = frozenset(("add", "remove", "replace", "move", "copy", "test"))
TAG_OF_ALL = "main"
"""A tag that identifies a document of nodes and edges whatever its name is."""


def apply_patch(definition: Document, patch: Any) -> Document:
    """Applies a patch to a canonical definition and returns the result.

    Raises:
        BadDefinition: it is not of these forms, can't be carried out, or what it makes is not valid. Nothing was changed.
    """
    operations = _operations(definition, patch)
    if any(_is_of_view(operation) for operation in operations):
        found = _viewed(definition, operations)
    elif all(operation.get("op") in JSON_PATCH and "path" in operation and "id" not in operation for operation in operations):
        found = apply_json_patch(definition, operations)
    else:
        found = apply_operations(definition, operations)
    before = canonical_document(definition)
    if found != before and found.get("version") == before.get("version"):
        found = canonical_document({**found, "version": next_minor(str(before.get("version", "1.0.0")))})
    return found


def patch_description(patch: Any) -> str:
    """The metadata of a patch."""
    spec = patch.get("patch_spec", patch) if isinstance(patch, dict) else {}
    found = spec.get("description", "") if isinstance(spec, dict) else ""
    return found if isinstance(found, str) else ""


def next_minor(version: str) -> str:
    """The version that a patch gives to what had this one."""
    major, minor, *_ = version.split("-")[0].split("+")[0].split(".")
    return f"{major}.{int(minor) + 1}.0"


def _operations(definition: Document, patch: Any) -> list[Document]:
    """The operations of a patch.

    Raises:
        BadDefinition: it has none, or is meant for another workflow.
    """
    if isinstance(patch, dict) and "patch_spec" in patch:
        tag, name, version = patch.get("workflow_tag", TAG_OF_ALL), definition["name"], definition.get("version", "1.0.0")
        if tag not in (TAG_OF_ALL, name, f"{name}@{version}"):
            _refuse("/workflow_tag", f"the patch is for the workflow {str(tag)[:60]!r}, and this one is {name!r}; name this one, or patch the other")
        patch = patch["patch_spec"]
    if isinstance(patch, dict):
        if unknown := sorted(set(map(str, patch)) - {"operations", "description"}):
            _refuse(joined_pointer("", unknown[0]), f"a patch has operations and a description, not {unknown[0][:40]!r}")
        patch = patch.get("operations")
    if not isinstance(patch, list) or not all(isinstance(one, dict) for one in patch):
        _refuse("", "a patch is a list of operations, each a mapping with 'op', or {operations, description}")
    return patch


def _refuse(pointer: str, text: str) -> NoReturn:
    raise BadDefinition([error_finding("bad_edit", pointer, text)])


def _is_of_view(operation: Document) -> bool:
    paths = (operation.get("path"), operation.get("from"))
    return any(isinstance(path, str) and path.split("/")[1:2] in (["nodes"], ["edges"]) for path in paths)


def _viewed(definition: Document, operations: list[Document]) -> Document:
    """Applies a JSON Patch of nodes and edges to a definition."""
    whole = canonical_document(definition)
    own = from_definition(whole).document if document_rules(whole).patched_as_nodes else None
    if own is None:
        return _of_steps(whole, operations)
    after = patch_document(own, operations)
    read = to_definition(after, name=whole["name"])
    _valid(list(read.findings))
    found = _with_ui(read.document, whole)
    _valid(definition_findings(found))
    return canonical_document(found)


def _valid(findings: list[DefinitionFinding]) -> None:
    if any(finding.severity == "error" for finding in findings):
        raise BadDefinition(findings)


def _with_ui(after: Document, before: Document) -> Document:
    """The definition with what editors keep beside it and its steps, which nodes do not show."""
    of_steps = {one.id: one.step["ui"] for one in placed_steps(before) if "ui" in one.step}
    steps = [{**step, "ui": of_steps[step["id"]]} if step["id"] in of_steps else step for step in after["steps"]]
    return {**after, "steps": steps} | ({"ui": before["ui"]} if "ui" in before else {})


def _of_steps(whole: Document, operations: list[Document]) -> Document:
    """Applies a JSON Patch to a definition whose nodes are its steps."""
    steps = {step["id"]: step for step in whole["steps"]}
    edges = list(_edges(whole))
    view = patch_document({"nodes": [{name: value for name, value in step.items() if name != "next"} for step in whole["steps"]], "edges": edges}, operations)
    nodes, after = view.get("nodes"), view.get("edges")
    if not isinstance(nodes, list) or not isinstance(after, list) or set(view) != {"nodes", "edges"}:
        _refuse("", "what is patched are the lists nodes and edges; nothing else stands beside them")
    made = [_step(node, joined_pointer("", "nodes", index), nodes) for index, node in enumerate(nodes)]
    ids = {step.get("id") for step in made}
    for index, edge in enumerate(after):
        _check_edge(edge, ids, joined_pointer("", "edges", index))
    gone = [_connection("disconnect", edge) for edge in edges if edge not in after]
    new = [_connection("connect", edge) for edge in after if edge not in edges]
    found = apply_operations(whole, gone) if gone else whole
    kept = {step["id"]: step["next"] for step in found["steps"] if "next" in step}
    needs = {step["id"]: step.get("needs") for step in found["steps"]}
    for step in made:
        id = step.get("id")
        if id in steps:
            step |= {"next": kept[id]} if id in kept else {}
            if step.get("needs") == steps[id].get("needs") and needs.get(id) != step.get("needs"):
                step["needs"] = needs[id] or []
    return apply_operations({**found, "steps": made}, new)


def _edges(whole: Document) -> Iterator[Document]:
    """The edges of a definition: in order of ports those of `next`, else those of `needs`."""
    if whole.get("order") != "ports":
        for step in whole["steps"]:
            needs = step.get("needs", [])
            yield from ({"from": source, "to": step["id"]} for source in ([needs] if isinstance(needs, str) else needs))
        return
    for step in whole["steps"]:
        match canonical_value(model.NEXT, step["next"]) if "next" in step else []:
            case {"choose": list(ids)}:
                yield from ({"from": step["id"], "to": id} for id in ids)
            case dict() as ports:
                for port, one in ports.items():
                    more = {} if port == "success" else {"port": port}
                    yield from ({"from": step["id"], "to": id, **more} for id in one.get("to", []))
            case list() as rules:
                ids = [id for rule in rules for id in (rule.get("to", []) if isinstance(rule, dict) else [rule])]
                yield from ({"from": step["id"], "to": id} for id in dict.fromkeys(ids))


def _step(node: Any, pointer: str, nodes: list[Any]) -> Document:
    """A node as a step: it is one, or it is read as a node of the dialect that has nodes, where it may refer to all others."""
    if not isinstance(node, dict) or not isinstance(node.get("id"), str):
        _refuse(pointer, "a node is a mapping with an id")
    if any(verb.name in node for verb in model.VERBS):
        return dict(normalized_copy(node))
    others = [{"id": other["id"]} for other in nodes if isinstance(other, dict) and other.get("id") != node["id"]]
    read = to_definition({"nodes": [node, *others], "edges": []})
    _valid(list(read.findings))
    return {name: value for name, value in read.document["steps"][0].items() if name != "next"}


def _check_edge(edge: Any, ids: set[Any], pointer: str) -> None:
    if not isinstance(edge, dict) or not {"from", "to"} <= set(edge) <= {"from", "to", "port"}:
        _refuse(pointer, "an edge is {from, to, port}; conditions stand in the rules of next, which the operation 'set' changes by the id of the step")
    for end in ("from", "to"):
        if edge[end] not in ids:
            _refuse(joined_pointer(pointer, end), f"there is no node {str(edge[end])[:60]!r}; remove the edge in the same patch, or add the node")


def _connection(op: str, edge: Document) -> Document:
    return {"op": op, "from": edge["from"], "to": edge["to"]} | ({"port": edge["port"]} if "port" in edge else {})
