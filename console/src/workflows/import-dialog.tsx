// Creates a definition from a document: a file, or text that is pasted. The server checks it while it is typed.
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useDeferredValue, useState } from "react";
import { api } from "@/api/client";
import blocks from "@/parts/blocks.module.css";
import { Field, TextField } from "@/parts/field";
import { FormDialog } from "@/parts/form-dialog";
import { tellEveryone } from "@/shell/told";
import { Findings } from "./findings";
import { type Definition, WORKFLOW_PATHS } from "./workflow-data";

interface Props {
  /** The document with which it begins, as in a duplicate. */
  document?: string;
  slug?: string;
  title?: string;
  submit?: string;
  note?: string;
  onClose: () => void;
}

/** A dialog that creates a definition, and goes to it. */
export function ImportDialog({ document: given = "", slug: givenSlug = "", title = "Import a definition", submit = "Import", note: givenNote = "", onClose }: Props) {
  const navigate = useNavigate();
  const [text, setText] = useState(given);
  const [slug, setSlug] = useState(givenSlug);
  const [note, setNote] = useState(givenNote);
  const deferred = useDeferredValue(text);
  const checked = useQuery({
    queryKey: ["post", "/api/workflows/validate", deferred],
    queryFn: async () => (await api.POST("/api/workflows/validate", { body: { document: deferred } as never })).data,
    enabled: deferred.trim() !== "",
    staleTime: Number.POSITIVE_INFINITY,
    placeholderData: (before) => before,
  }).data;
  const done = (created: Definition) => {
    onClose();
    tellEveryone(`${created.slug} is there, with version ${created.version}`);
    void navigate({ to: "/workflows/$slug", params: { slug: created.slug } });
  };
  const wanted = slug || checked?.slug || "";
  return (
    <FormDialog
      title={title}
      submit={submit}
      wide
      refusal={text.trim() ? "" : "Choose a file, or paste a document"}
      paths={WORKFLOW_PATHS}
      onSubmit={async () => (await api.POST("/api/workflows", { body: { document: text, slug: slug || undefined, note: note || undefined } as never })).data as Definition}
      onDone={done}
      onClose={onClose}
    >
      {given === "" && (
        <Field label="File" hint="YAML or JSON, also a document of another system that Perdure reads.">
          {(shared) => <input {...shared} type="file" accept=".yaml,.yml,.json" onChange={async (event) => setText((await event.target.files?.[0]?.text()) ?? "")} />}
        </Field>
      )}
      <TextField label="Document" value={text} onChange={setText} rows={14} mono />
      {text.trim() && checked && (
        <div role="status" className={blocks.stack}>
          {checked.valid ? <p>✓ The document is valid{checked.dialect ? `, of the dialect ${checked.dialect}` : ""}.</p> : <p className={blocks.bad}>✗ The document is not valid.</p>}
          <Findings findings={checked.findings} />
        </div>
      )}
      <div className={blocks.pair}>
        <TextField label="Slug" value={slug} onChange={setSlug} mono placeholder={checked?.slug} hint={wanted ? `It will be at /workflows/${wanted}.` : "By default made from the name in the document."} />
        <TextField label="Note" value={note} onChange={setNote} hint="Why; it stays in the history." />
      </div>
    </FormDialog>
  );
}
