// Dialogs of recordings: to begin one, to give a result or values of the input, to end it, and to save a definition of it.
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api } from "@/api/client";
import { jsonProblem, parseExact, writeExact } from "@/api/exact-json";
import { CheckField, ChoiceField, TextField } from "@/parts/field";
import { FormDialog } from "@/parts/form-dialog";
import { tellEveryone } from "@/shell/told";

const PATHS = ["/api/recordings"];

interface Props {
  id: string;
  onClose: () => void;
}

/** Why a text is not a JSON object; empty if it is one. */
function objectProblem(text: string): string {
  const problem = jsonProblem(text);
  if (problem) return problem;
  const value = parseExact(text);
  return typeof value === "object" && value !== null && !Array.isArray(value) ? "" : 'This is no JSON object, such as {"user": 7}';
}

/** Begins a recording. */
export function StartRecordingDialog({ onClose }: { onClose: () => void }) {
  const navigate = useNavigate();
  const [title, setTitle] = useState("");
  const [input, setInput] = useState("{}");
  const problem = objectProblem(input);
  return (
    <FormDialog
      title="Begin a recording"
      submit="Begin"
      refusal={problem}
      paths={PATHS}
      onClose={onClose}
      onSubmit={async () => (await api.POST("/api/recordings", { body: { title: title || undefined, input: parseExact(input) as never } })).data}
      onDone={(started) => {
        onClose();
        if (started) void navigate({ to: "/recordings/$id", params: { id: started.id } });
      }}
    >
      <TextField label="Title" value={title} onChange={setTitle} hint="What is done in it, such as “Refund an order”." autoFocus />
      <TextField label="Input" value={input} onChange={setInput} rows={4} mono hint="The values of @input, as a JSON object. They are not part of the definition." />
    </FormDialog>
  );
}

/** Sets values of the input of a recording. */
export function InputDialog({ id, input, onClose }: Props & { input: unknown }) {
  const [text, setText] = useState(() => writeExact(input, 2));
  const problem = objectProblem(text);
  return (
    <FormDialog
      title="Values of the input"
      submit="Set"
      refusal={problem}
      paths={PATHS}
      onClose={onClose}
      onSubmit={async () => api.PATCH("/api/recordings/{recording}/input", { params: { path: { recording: id } }, body: { input: parseExact(text) as never } })}
    >
      <TextField label="Input" value={text} onChange={setText} rows={8} mono hint="Calls refer to them as @input.name. A definition has the names and their types, and no value." />
    </FormDialog>
  );
}

/** Gives the result of a call that is not made. */
export function PresetDialog({ id, step, tools, onClose }: Props & { step: string; tools: string[] }) {
  const [tool, setTool] = useState("");
  const [args, setArgs] = useState("{}");
  const [result, setResult] = useState("{}");
  const problem = (step || tool ? "" : "Name the tool") || (step ? "" : objectProblem(args)) || jsonProblem(result);
  return (
    <FormDialog
      title={step ? `Give the result of ${step}` : "Give the result of a call"}
      submit="Give it"
      refusal={problem}
      paths={PATHS}
      onClose={onClose}
      onSubmit={async () =>
        api.POST("/api/recordings/{recording}/presets", {
          params: { path: { recording: id } },
          body: { result: parseExact(result) as never, ...(step ? { step } : { tool, arguments: parseExact(args) as never }) },
        })
      }
    >
      <p>The tool is not called. Later calls can refer to the result; no definition has it.</p>
      {!step && <TextField label="Tool" value={tool} onChange={setTool} mono required autoFocus offers={tools} hint="With its server: github.create_issue." />}
      {!step && <TextField label="Arguments" value={args} onChange={setArgs} rows={3} mono />}
      <TextField label="Result" value={result} onChange={setResult} rows={6} mono hint="JSON." />
    </FormDialog>
  );
}

/** Ends a recording. */
export function EndDialog({ id, onClose }: Props) {
  return (
    <FormDialog
      title="End the recording"
      submit="End it"
      danger
      paths={PATHS}
      onClose={onClose}
      onSubmit={async () => api.POST("/api/recordings/{recording}/end", { params: { path: { recording: id } } })}
      onDone={() => {
        tellEveryone("The recording has ended");
        onClose();
      }}
    >
      <p>No call can be recorded any more once those that run have ended. A definition can be made of it later as well.</p>
    </FormDialog>
  );
}

/** Saves the definition of a recording, with what was accepted. */
export function SaveDialog({ id, accepted, failed, name, onClose }: Props & { accepted: string[]; failed: boolean; name: string }) {
  const navigate = useNavigate();
  const [slug, setSlug] = useState(name);
  const [note, setNote] = useState("");
  const [isDraft, setDraft] = useState(true);
  const [order, setOrder] = useState<"recorded" | "references">("recorded");
  return (
    <FormDialog
      title="Save it as a definition"
      submit={isDraft ? "Save as a draft" : "Publish"}
      refusal={slug ? "" : "Give it a name"}
      paths={["/api/recordings", "/api/workflows"]}
      onClose={onClose}
      onSubmit={async () =>
        (await api.POST("/api/recordings/{recording}/save", { params: { path: { recording: id } }, body: { slug, accept: accepted, failed, order, draft: isDraft, note: note || undefined } })).data
      }
      onDone={(saved) => {
        onClose();
        if (saved) void navigate(isDraft ? { to: "/workflows/$slug/edit", params: { slug: saved.slug } } : { to: "/workflows/$slug", params: { slug: saved.slug } });
      }}
    >
      <TextField label="Name" value={slug} onChange={setSlug} mono required autoFocus hint="Small letters, digits and hyphens. A definition of this name gets another version." />
      <TextField label="Note" value={note} onChange={setNote} hint="What is new, for the list of versions." />
      <ChoiceField
        label="Order of the steps"
        value={order}
        onChange={(value) => setOrder(value as typeof order)}
        choices={[
          ["recorded", "as they were recorded"],
          ["references", "by their references alone, at the same time where they can"],
        ]}
      />
      <CheckField label="As a draft, to go on in the editor" checked={isDraft} onChange={setDraft} />
    </FormDialog>
  );
}
