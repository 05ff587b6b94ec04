// People: when they are out of office, who stands in, and where notifications reach them. Everybody has their own; admins see all.
import { useState } from "react";
import { api, queries, type Schemas } from "@/api/client";
import { usePages } from "@/api/pages";
import blocks from "@/parts/blocks.module.css";
import { Button } from "@/parts/button";
import { CheckField, TextField } from "@/parts/field";
import { FormDialog } from "@/parts/form-dialog";
import { ErrorNotice, Loading, Notice } from "@/parts/notice";
import { Facts, Section } from "@/parts/page";
import { SimpleTable } from "@/parts/simple-table";
import { TimeText } from "@/parts/time-text";
import { useIdentity, useRefusal } from "@/shell/identity";
import { ownName } from "@/shell/own-name";
import { tellEveryone } from "@/shell/told";
import { apiTime, fieldTime } from "@/triggers/tick-times";
import { stateWord } from "@/words/states";
import { KIND_NAMES, type NotificationKind } from "./notification-kinds";

type Person = Schemas["PersonDetails"];

/** The tab of people. */
export function PeopleTab() {
  const identity = useIdentity();
  const admin = useRefusal("admin");
  const [edited, edit] = useState("");
  if (!identity) return <Loading what="who you are" />;
  const isKey = identity.subject.startsWith("key:");
  const own = ownName(identity);
  return (
    <div className={blocks.sections}>
      <Section title="You">
        {isKey ? (
          <Notice>
            <p>You use the key {identity.subject}, which is that of a program; a program has no absence and gets no e-mail. People who sign in by themselves have this here.</p>
          </Notice>
        ) : (
          <Own name={own} onEdit={() => edit(own)} />
        )}
      </Section>
      <Section title="All people">{admin ? <p className={blocks.soft}>{admin}.</p> : <Everybody onEdit={edit} />}</Section>
      {edited && <PersonDialog name={edited} onClose={() => edit("")} />}
    </div>
  );
}

function Own({ name, onEdit }: { name: string; onEdit: () => void }) {
  const person = queries.useQuery("get", "/api/people/{person}", { params: { path: { person: name } } });
  if (person.error) return <ErrorNotice error={person.error} />;
  if (!person.data) return <Loading what="what is known of you" />;
  return (
    <div className={blocks.stack}>
      <Facts of={factsOf(person.data)} />
      <div>
        <Button onClick={onEdit}>Change…</Button>
      </div>
    </div>
  );
}

function factsOf(person: Person): Parameters<typeof Facts>[0]["of"] {
  return [
    ["Name", person.name],
    ["Out of office", <Absence key="out" person={person} />],
    ["Stands in", person.substitute || "nobody"],
    ["E-mail", person.email || "none: no e-mail is sent"],
    ["Not told of", (person.unsubscribed ?? []).map((one) => KIND_NAMES[one]).join(", ") || "nothing: told of everything that concerns them"],
  ];
}

function Absence({ person }: { person: Person }) {
  if (!person.outFromAt && !person.outUntilAt) return <>no</>;
  return (
    <>
      {person.isOut ? <strong className={blocks.warn}>{stateWord("paused").glyph} out now</strong> : "planned"}
      {person.outFromAt && <>; {person.isOut ? "began" : "begins"} <TimeText at={person.outFromAt} /></>}
      {person.outUntilAt && <>; ends <TimeText at={person.outUntilAt} /></>}
    </>
  );
}

function Everybody({ onEdit }: { onEdit: (name: string) => void }) {
  const [name, setName] = useState("");
  const people = usePages("/api/people", {}, (after?: string) => api.GET("/api/people", { params: { query: { limit: 100, after } } }));
  if (people.error) return <ErrorNotice error={people.error} />;
  if (!people.data) return <Loading what="the people" />;
  return (
    <div className={blocks.stack}>
      <SimpleTable
        label="People"
        rows={people.data.pages.flatMap((one) => one.items)}
        keyOf={(one) => one.name}
        empty="Nothing is known of anybody yet. People need no record to decide on approvals."
        columns={[
          { id: "name", title: "Name", cell: (one) => one.name },
          { id: "out", title: "Out of office", cell: (one) => <Absence person={one} /> },
          { id: "substitute", title: "Stands in", cell: (one) => one.substitute || "–" },
          { id: "email", title: "E-mail", cell: (one) => one.email || "–" },
          { id: "unsubscribed", title: "Not told of", wideOnly: true, cell: (one) => (one.unsubscribed ?? []).map((kind) => KIND_NAMES[kind]).join(", ") || "–" },
          { id: "edit", title: "Change", cell: (one) => <Button look="quiet" aria-label={`Change ${one.name}`} onClick={() => onEdit(one.name)}>Change…</Button> },
        ]}
      />
      {people.hasNextPage && (
        <div>
          <Button busy={people.isFetchingNextPage} onClick={() => void people.fetchNextPage()}>
            More people
          </Button>
        </div>
      )}
      <form
        className={blocks.ends}
        onSubmit={(event) => {
          event.preventDefault();
          if (name.trim()) onEdit(name.trim());
        }}
      >
        <TextField label="Somebody else" value={name} onChange={setName} />
        <Button type="submit" refusal={name.trim() ? "" : "Give their name"}>
          Open…
        </Button>
      </form>
    </div>
  );
}

function PersonDialog({ name, onClose }: { name: string; onClose: () => void }) {
  const person = queries.useQuery("get", "/api/people/{person}", { params: { path: { person: name } } });
  if (person.data) return <PersonForm person={person.data} onClose={onClose} />;
  return (
    <FormDialog title={name} submit="Save" refusal="It is not read yet" onSubmit={async () => undefined} onClose={onClose}>
      {person.error ? <ErrorNotice error={person.error} /> : <Loading what="what is known" />}
    </FormDialog>
  );
}

function PersonForm({ person, onClose }: { person: Person; onClose: () => void }) {
  const [from, setFrom] = useState(fieldTime(person.outFromAt));
  const [until, setUntil] = useState(fieldTime(person.outUntilAt));
  const [substitute, setSubstitute] = useState(person.substitute ?? "");
  const [email, setEmail] = useState(person.email ?? "");
  const [off, setOff] = useState<NotificationKind[]>(person.unsubscribed ?? []);
  const body = { outFromAt: apiTime(from), outUntilAt: apiTime(until), substitute, email, unsubscribed: off, revision: person.version };
  return (
    <FormDialog
      title={`Change ${person.name}`}
      submit="Save"
      refusal={from && until && from >= until ? "The absence ends before it begins" : ""}
      paths={["/api/people"]}
      onClose={onClose}
      onDone={() => (onClose(), tellEveryone(`What is known of ${person.name} is saved`))}
      onSubmit={() => api.PUT("/api/people/{person}", { params: { path: { person: person.name } }, body: body as never })}
    >
      <div className={blocks.pair}>
        <TextField label="Out of office from" type="datetime-local" value={from} onChange={setFrom} hint="In your time zone." />
        <TextField label="Until" type="datetime-local" value={until} onChange={setUntil} hint="In your time zone." />
        <TextField label="Who stands in" value={substitute} onChange={setSubstitute} hint="May decide in their place meanwhile." />
        <TextField label="E-mail" type="email" value={email} onChange={setEmail} hint="For notifications; empty: none." />
      </div>
      <fieldset className={blocks.stack}>
        <legend>Tell by e-mail of</legend>
        {(Object.entries(KIND_NAMES) as [NotificationKind, string][]).map(([kind, says]) => (
          <CheckField key={kind} label={says} checked={!off.includes(kind)} onChange={(on) => setOff(on ? off.filter((one) => one !== kind) : [...off, kind])} />
        ))}
      </fieldset>
    </FormDialog>
  );
}
