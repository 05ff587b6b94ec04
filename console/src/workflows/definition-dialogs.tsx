// Dialogs that change a definition as a whole: its details, its switch, its tags, and its removal.
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api, queries } from "@/api/client";
import blocks from "@/parts/blocks.module.css";
import { Button } from "@/parts/button";
import { ChoiceField, TextField } from "@/parts/field";
import { FormDialog } from "@/parts/form-dialog";
import { tellEveryone } from "@/shell/told";
import { type Definition, WORKFLOW_PATHS } from "./workflow-data";

interface Props {
  definition: Definition;
  onClose: () => void;
}

const pathOf = (one: Definition) => ({ path: { definition: one.slug } });

/** Changes the name, the description and the tags by which a definition is found. */
export function DetailsDialog({ definition, onClose }: Props) {
  const [name, setName] = useState(definition.name);
  const [description, setDescription] = useState(definition.description);
  const [tags, setTags] = useState(definition.tags.join(", "));
  const fields = { name, description, tags: tags.split(",").map((one) => one.trim()).filter(Boolean) };
  return (
    <FormDialog title="Change details" submit="Save" paths={WORKFLOW_PATHS} onClose={onClose} onSubmit={() => api.PUT("/api/workflows/{definition}", { params: pathOf(definition), body: { fields, revision: definition.revision } as never })}>
      <TextField label="Name" value={name} onChange={setName} />
      <TextField label="Description" value={description} onChange={setDescription} rows={3} />
      <TextField label="Tags" value={tags} onChange={setTags} hint="Words to find it by, separated by commas." />
    </FormDialog>
  );
}

/** Pauses new starts of a definition, or takes them again. */
export function SwitchDialog({ definition, onClose }: Props) {
  const [note, setNote] = useState("");
  const enabled = !definition.enabled;
  return (
    <FormDialog
      title={enabled ? `Take new starts of ${definition.slug}` : `Pause new starts of ${definition.slug}`}
      submit={enabled ? "Take new starts" : "Pause new starts"}
      paths={WORKFLOW_PATHS}
      onClose={onClose}
      onDone={() => (onClose(), tellEveryone(enabled ? `${definition.slug} takes new starts` : `New starts of ${definition.slug} are paused`))}
      onSubmit={() => api.PUT("/api/workflows/{definition}", { params: pathOf(definition), body: { fields: { enabled }, note: note || undefined, revision: definition.revision } as never })}
    >
      <p>
        {enabled
          ? "People, programs and triggers can start it again. What its triggers missed meanwhile is not made up for."
          : "Nobody can start it, and its triggers start nothing. Executions in progress go on, and children that they start of other workflows too."}
      </p>
      <TextField label="Note" value={note} onChange={setNote} hint="Why; it stays in the history." />
    </FormDialog>
  );
}

/** Deletes a definition, and says what stays. */
export function DeleteDialog({ definition, onClose }: Props) {
  const navigate = useNavigate();
  const [typed, setTyped] = useState("");
  const [note, setNote] = useState("");
  const use = queries.useQuery("get", "/api/workflow-versions-in-use", { params: { query: { workflow: definition.slug } } }).data;
  const triggers = queries.useQuery("get", "/api/triggers", { params: { query: { workflowId: definition.slug, limit: 100 } } }).data?.items ?? [];
  const own = triggers.filter((one) => one.definition === definition.slug);
  const others = triggers.filter((one) => one.definition !== definition.slug);
  return (
    <FormDialog
      title={`Delete ${definition.slug}`}
      submit="Delete"
      danger
      refusal={typed === definition.slug ? "" : `Type ${definition.slug} to delete it`}
      paths={[]}
      onClose={onClose}
      onDone={() => {
        onClose();
        tellEveryone(`${definition.slug} is deleted`);
        void navigate({ to: "/workflows" });
      }}
      onSubmit={() => api.DELETE("/api/workflows/{definition}", { params: { ...pathOf(definition), query: { revision: definition.revision, note: note || undefined } } })}
    >
      <div className={blocks.stack}>
        <p>What goes: the definition can't be started any more, and {own.length === 0 ? "it has no triggers of its own" : own.length === 1 ? `its trigger ${own[0]?.name} goes with it` : `its ${own.length} triggers go with it (${own.map((one) => one.name).join(", ")})`}.</p>
        <p>
          What stays: its versions and its history, which can still be read; {use ? (use.total === 0 ? "no execution of it is in progress" : `${use.isPartial ? "at least " : ""}${use.total} of its executions, which go on with the version that they began with`) : "its executions"}; and those that have ended.
        </p>
        {others.length > 0 && <p className={blocks.warn}>! {others.map((one) => one.name).join(", ")} would start it and will fail to: {others.length === 1 ? "that trigger is" : "those triggers are"} not deleted with it.</p>}
      </div>
      <TextField label={`Type ${definition.slug} to confirm`} value={typed} onChange={setTyped} mono />
      <TextField label="Note" value={note} onChange={setNote} hint="Why; it stays in the history." />
    </FormDialog>
  );
}

/** Moves a tag, such as `production`, to another version, makes a new one, or removes one. */
export function TagDialog({ definition, versions, onClose }: Props & { versions: string[] }) {
  const [tag, setTag] = useState(Object.keys(definition.versionTags)[0] ?? "");
  const present = definition.versionTags[tag]?.version ?? "";
  const [version, setVersion] = useState("");
  const [note, setNote] = useState("");
  const wanted = version || present || definition.version;
  const params = { path: { definition: definition.slug, tag } };
  return (
    <FormDialog
      title="Move a tag"
      submit={present ? "Move the tag" : "Set the tag"}
      refusal={tag === "" ? "Name a tag" : wanted === present ? `${tag} is at ${present} already` : ""}
      paths={WORKFLOW_PATHS}
      onClose={onClose}
      onDone={() => (onClose(), tellEveryone(`${tag} is at ${wanted}`))}
      onSubmit={() => api.PUT("/api/workflows/{definition}/tags/{tag}", { params, body: { version: wanted, note: note || undefined, revision: definition.revision } as never })}
    >
      <TextField label="Tag" value={tag} onChange={setTag} mono offers={Object.keys(definition.versionTags)} hint={present ? `It is at ${present}. Starts of ${definition.slug}:${tag} take the new version as soon as it is moved.` : `Starts of ${definition.slug}:${tag || "TAG"} take this version.`} />
      <ChoiceField label="Version" value={wanted} onChange={setVersion} choices={versions.map((one) => [one, one] as const)} />
      <TextField label="Note" value={note} onChange={setNote} hint="Why; it stays in the history." />
      {present && <RemoveTag definition={definition} tag={tag} onClose={onClose} />}
    </FormDialog>
  );
}

function RemoveTag({ definition, tag, onClose }: Props & { tag: string }) {
  const [isAsked, ask] = useState(false);
  return (
    <>
      <div>
        <Button look="danger" onClick={() => ask(true)}>
          Remove the tag…
        </Button>
      </div>
      {isAsked && (
        <FormDialog
          title={`Remove the tag ${tag}`}
          submit="Remove"
          danger
          paths={WORKFLOW_PATHS}
          onClose={() => ask(false)}
          onDone={onClose}
          onSubmit={() => api.DELETE("/api/workflows/{definition}/tags/{tag}", { params: { path: { definition: definition.slug, tag }, query: { revision: definition.revision } } })}
        >
          <p>
            Starts of {definition.slug}:{tag} will find no version. The version itself stays.
          </p>
        </FormDialog>
      )}
    </>
  );
}
