// The dialog that sends a message to an execution.
import { type FormEvent, useId, useRef, useState } from "react";
import { refresh } from "@/api/client";
import { writeExact } from "@/api/exact-json";
import { randomId } from "@/api/random-id";
import { Button } from "@/parts/button";
import { Dialog } from "@/parts/dialog";
import { ChoiceField } from "@/parts/field";
import { ErrorNotice } from "@/parts/notice";
import { type JsonSchema, SchemaForm } from "@/parts/schema-form";
import { tellEveryone } from "@/shell/told";
import { awaitedMessages, awaitedSchema, sendMessage } from "./commands";
import { type ExecutionRecord, nameOf } from "./execution-reads";
import { signalSchema } from "./signal-schema";
import styles from "./message-dialog.module.css";

interface Props {
  record: ExecutionRecord;
  definition: unknown;
  onClose: () => void;
}

/** Asks for the name and the body of a message, and sends it. */
export function MessageDialog({ record, definition, onClose }: Props) {
  const form = useId();
  const awaited = awaitedMessages(record);
  const [name, setName] = useState(awaited[0] ?? "");
  const [body, setBody] = useState<unknown>(undefined);
  const [messageKey, setMessageKey] = useState("");
  const [problem, setProblem] = useState("");
  const [error, setError] = useState<unknown>(null);
  const [isSending, setSending] = useState(false);
  const [isJson, setJson] = useState(false);
  const sent = useRef({ text: "", key: "" });
  const known = awaitedSchema(record, name) ?? signalSchema(definition, name);
  const schema = known === null || isJson ? JSON_BODY : known;
  const refusal = problem || (name === "" ? "Give the message a name" : "");
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (refusal || isSending) return;
    const message = { name, ...(body === undefined ? {} : { body }), ...(messageKey ? { messageKey } : {}) };
    const text = writeExact(message);
    if (sent.current.text !== text) sent.current = { text, key: randomId() };
    setSending(true);
    setError(null);
    try {
      await sendMessage(record, message, sent.current.key);
      onClose();
      tellEveryone(`${name} is sent to ${nameOf(record)}; it waits there until it is received.`);
      await refresh("/api/executions");
    } catch (failure) {
      setError(failure);
    } finally {
      setSending(false);
    }
  };
  return (
    <Dialog
      title={`Send a message to ${nameOf(record)}`}
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Close</Button>
          <Button type="submit" form={form} look="main" refusal={refusal} busy={isSending}>
            {isSending ? "The server is asked …" : "Send"}
          </Button>
        </>
      }
    >
      <p>
        {awaited.length > 0 ? "It waits for: " : "It waits for no message now. One that is sent stays in its mailbox until it is received."}
        {awaited.map((one) => (
          <Button key={one} look="quiet" aria-pressed={one === name} onClick={() => setName(one)}>
            {one}
          </Button>
        ))}
      </p>
      <form id={form} onSubmit={submit} className={styles.form}>
        <label className={styles.field}>
          Name
          <input value={name} onChange={(event) => setName(event.target.value)} required spellCheck={false} dir="auto" />
        </label>
        {known !== null && (
          <ChoiceField
            label="Enter the body as"
            value={isJson ? "json" : "form"}
            onChange={(look) => {
              setJson(look === "json");
              setProblem("");
            }}
            choices={[["form", "a form"], ["json", "JSON"]]}
          />
        )}
        <SchemaForm
          key={schema === JSON_BODY ? "" : name}
          schema={schema}
          label="Body"
          required={false}
          value={body}
          onChange={(value, said) => {
            setBody(value);
            setProblem(said);
          }}
        />
        <label className={styles.field}>
          Key <span className={styles.soft}>(optional) Of several messages with the same key, one is received.</span>
          <input value={messageKey} onChange={(event) => setMessageKey(event.target.value)} spellCheck={false} />
        </label>
      </form>
      {error !== null && <ErrorNotice error={error} />}
    </Dialog>
  );
}

const JSON_BODY: JsonSchema = { description: 'JSON; a text stands in "quotes".' };
