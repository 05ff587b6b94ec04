// One recording: its calls as they come, what their literals may have been, and the definition that is made of them.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { api, type Schemas } from "@/api/client";
import blocks from "@/parts/blocks.module.css";
import { Button } from "@/parts/button";
import { CopyButton } from "@/parts/copy-button";
import { CheckField } from "@/parts/field";
import { Menu } from "@/parts/menu";
import { ErrorNotice, Loading, Notice } from "@/parts/notice";
import { Facts, Page, Section } from "@/parts/page";
import { StateMark } from "@/parts/state-mark";
import { DurationText, TimeText } from "@/parts/time-text";
import { ValueView } from "@/parts/value-view";
import { writeExact } from "@/api/exact-json";
import { useRefusal } from "@/shell/identity";
import { useView } from "@/shell/search";
import { countText } from "@/words/times";
import { EndDialog, InputDialog, PresetDialog, SaveDialog } from "./recording-dialogs";
import { type Recording, useRecording } from "./recording-reads";
import { callState, placeText, recordingState, shownState, sureness, switched } from "./recording-words";
import styles from "./recording-page.module.css";

type Call = Schemas["RecordedCall"];
type Suggestions = Schemas["RecordingSuggestions"];

const SHOWN_CHARACTERS_MAX = 80;

/** The page of a recording. */
export function RecordingPage() {
  const { id } = useParams({ strict: false }) as { id: string };
  const { recording, ...found } = useRecording(id);
  if (found.isPending) return <Loading what="the recording" />;
  if (!recording)
    return (
      <Page title="Recording" name="Recording">
        <ErrorNotice error={found.error} onRetry={() => void found.refetch()} />
      </Page>
    );
  return (
    <Details
      key={id}
      recording={recording}
      more={
        found.hasNextPage && (
          <>
            <Button busy={found.isFetchingNextPage} onClick={() => void found.fetchNextPage()}>
              Show more calls
            </Button>
            {found.isFetchNextPageError && <ErrorNotice error={found.error} />}
          </>
        )
      }
    />
  );
}

type Asked = { dialog: "" | "input" | "end" | "save" } | { dialog: "preset"; step: string };

interface DetailsProps {
  recording: Recording;
  /** What reads more calls, if there are more. */
  more: ReactNode;
}

function Details({ recording, more }: DetailsProps) {
  const view = useView();
  const accepted = view.list("accept");
  const failed = view.text("failed") === "yes";
  const [asked, ask] = useState<Asked>({ dialog: "" });
  const operator = useRefusal("operator", "recordings.call");
  const author = useRefusal("author", "recordings.save");
  const { calls } = recording;
  const states = new Set(Object.keys(recording.callsByState).map(shownState));
  const hasFailed = states.has("failed");
  const isUsable = states.has("completed") || (failed && hasFailed);
  const isIdle = !states.has("running") && !states.has("waiting");
  const closed = recording.open ? "" : "The recording has ended";
  const close = () => ask({ dialog: "" });
  return (
    <Page
      title={<bdi>{recording.title || recording.id}</bdi>}
      name={recording.title || recording.id}
      below={
        <>
          <StateMark state={recordingState({ open: recording.open, idle: isIdle })} /> {recording.open ? (isIdle ? "It waits for the next call, for as long as it takes." : "A call runs.") : "It has ended."}
        </>
      }
      actions={
        <>
          <Button look="main" refusal={author || (isUsable ? "" : "No call has a result yet")} onClick={() => ask({ dialog: "save" })}>
            Save as a definition …
          </Button>
          <Menu
            title="Actions"
            items={[
              { title: "Give the result of a call …", refusal: operator || closed, onChoose: () => ask({ dialog: "preset", step: "" }) },
              { title: "Values of the input …", refusal: operator || closed, onChoose: () => ask({ dialog: "input" }) },
              { title: "End it …", refusal: operator || closed, danger: true, onChoose: () => ask({ dialog: "end" }) },
            ]}
          />
        </>
      }
    >
      <Facts
        of={[
          ["Begun", <TimeText key="at" at={recording.startedAt} />],
          ["Last call", <TimeText key="last" at={recording.lastAt} />],
          ["Calls", countText(recording.callsInAll)],
          ["Execution", <Link key="execution" to="/executions/$workflow/$id" params={{ workflow: "perdure.recording", id: recording.id }}>its log</Link>],
          ["Go on with it", recording.open && <code key="how">perdure mcp --record {recording.id}</code>],
        ]}
      />
      {Object.keys(recording.input).length > 0 && (
        <Section title="Input">
          <ValueView value={recording.input} name="the input" />
        </Section>
      )}
      <Section title="Calls">
        {calls.length === 0 && <p className={blocks.soft}>None yet. Each call of a tool appears here when it has begun.</p>}
        <ol className={styles.calls}>
          {calls.map((call) => (
            <CallCard key={call.number} call={call} refusal={operator || closed} onPreset={() => ask({ dialog: "preset", step: call.step })} />
          ))}
        </ol>
        {more && (
          <div className={blocks.row}>
            {more}
            <span className={blocks.soft}>
              {countText(calls.length)} of {countText(recording.callsInAll)} calls are shown.
            </span>
          </div>
        )}
        {recording.presetsToCome.length > 0 && <p className={blocks.soft}>Results are given beforehand for {recording.presetsToCome.join(", ")}.</p>}
      </Section>
      {isUsable && <Suggested recording={recording} accepted={accepted} failed={failed} onAccept={(next) => view.change({ accept: next.length ? next : undefined }, true)} />}
      {(isUsable || hasFailed) && (
        <DefinitionText
          recording={recording}
          accepted={accepted}
          failed={failed}
          isUsable={isUsable}
          hasFailed={hasFailed}
          onFailed={(wanted) => view.change({ failed: wanted ? "yes" : undefined, accept: undefined }, true)}
        />
      )}
      {asked.dialog === "preset" && <PresetDialog id={recording.id} step={asked.step} tools={[...new Set(calls.map((call) => call.tool))]} onClose={close} />}
      {asked.dialog === "input" && <InputDialog id={recording.id} input={recording.input} onClose={close} />}
      {asked.dialog === "end" && <EndDialog id={recording.id} onClose={close} />}
      {asked.dialog === "save" && <SaveDialog id={recording.id} accepted={accepted} failed={failed} name={/^[a-z0-9-]+$/.test(recording.id) && recording.id.length < 30 ? recording.id : ""} onClose={close} />}
    </Page>
  );
}

function CallCard({ call, refusal, onPreset }: { call: Call; refusal: string; onPreset: () => void }) {
  const state = callState(call);
  const differs = call.sent != null && writeExact(call.sent) !== writeExact(call.arguments ?? {});
  return (
    <li className={styles.call} aria-label={`${call.step}: ${call.isPreset ? "result given" : state}`}>
      <div className={blocks.row}>
        <code className={styles.step}>{call.step}</code>
        <StateMark state={state} />
        {call.isPreset && <span className={blocks.chip}>result given, not called</span>}
        <span className={blocks.soft}>
          <bdi>{call.tool}</bdi>
          {call.completedAt && (
            <>
              , <DurationText from={call.beganAt} until={call.completedAt} />
            </>
          )}
          {(call.attempts ?? 0) > 1 && `, ${call.attempts} attempts`}
        </span>
        {state === "failed" && (
          <Button look="quiet" refusal={refusal} onClick={onPreset}>
            Give its result …
          </Button>
        )}
      </div>
      <div className={blocks.pair}>
        <div>
          <h3 className={styles.name}>Arguments</h3>
          <ValueView value={call.arguments ?? {}} name={`the arguments of ${call.step}`} />
          {differs && (
            <details>
              <summary>As they were forwarded</summary>
              <ValueView value={call.sent} name={`what was forwarded to ${call.step}`} />
            </details>
          )}
        </div>
        <div>
          <h3 className={styles.name}>{call.error ? "Error" : "Result"}</h3>
          {call.error ? <p className={`${blocks.plain} ${blocks.bad}`}>{call.error}</p> : call.state === "completed" ? <ValueView value={call.value ?? null} name={`the result of ${call.step}`} /> : <p className={blocks.soft}>not yet</p>}
        </div>
      </div>
    </li>
  );
}

function useSuggestions(recording: Recording, failed: boolean) {
  return useQuery({
    queryKey: ["post", "/api/recordings/{recording}/suggestions", recording.id, failed, recording.lastAt, recording.callsInAll],
    queryFn: async () => (await api.POST("/api/recordings/{recording}/suggestions", { params: { path: { recording: recording.id } }, body: { failed } })).data as Suggestions,
    placeholderData: keepPreviousData,
  });
}

interface ChoiceProps {
  recording: Recording;
  accepted: string[];
  failed: boolean;
}

function Suggested({ recording, accepted, failed, onAccept }: ChoiceProps & { onAccept: (next: string[]) => void }) {
  const found = useSuggestions(recording, failed);
  const [showsWeak, showWeak] = useState(false);
  const { references: every = [], loops = [], isPartial = false } = found.data ?? {};
  const covered = new Set(loops.filter((one) => accepted.includes(one.key)).flatMap((one) => one.covers));
  const references = every.filter((one) => !covered.has(one.key));
  const all = [...references, ...loops];
  const shown = (one: { key: string; found: boolean }) => one.found || showsWeak || accepted.includes(one.key);
  const weak = all.filter((one) => !one.found).length;
  const likely = references.filter((one) => one.found && !accepted.includes(one.key)).map((one) => one.key);
  return (
    <Section
      title="What literals may have been"
      actions={
        <div className={blocks.row}>
          {likely.length > 0 && <Button onClick={() => onAccept([...accepted, ...likely])}>Accept the {countText(likely.length)} likely ones</Button>}
          {accepted.length > 0 && <Button onClick={() => onAccept([])}>Accept none</Button>}
        </div>
      }
    >
      {found.error && <ErrorNotice error={found.error} onRetry={() => void found.refetch()} />}
      {found.isPending && <Loading what="the suggestions" />}
      {found.data && all.length === 0 && <p className={blocks.soft}>No literal in the arguments is a value that was known before.</p>}
      {isPartial && <Notice look="warn">The recording is larger than what is searched, so there may be more.</Notice>}
      <ul className={styles.suggestions}>
        {references.filter(shown).map((one) => (
          <li key={one.key}>
            <CheckField
              checked={accepted.includes(one.key)}
              onChange={() => onAccept(switched(accepted, one.key))}
              label={
                <>
                  <code>{one.call}</code>, {placeText(one.path) || "all arguments"}: <code className={styles.literal}>{shortText(one.literal)}</code> → <code className={styles.reference}>{one.expression || one.reference}</code>
                </>
              }
              hint={
                <>
                  {sureness(one)}: {one.why}
                  {one.isProposed && ". The input gets this parameter"}
                  {!one.isSame && ". It would be written in another way than it was"}
                  {one.alternatives.length > 0 && `. Also at ${one.alternatives.map((other) => other.reference).join(", ")}${one.moreAlternatives ? ` and ${countText(one.moreAlternatives)} more places` : ""}`}.
                </>
              }
            />
          </li>
        ))}
        {loops.filter(shown).map((one) => (
          <li key={one.key}>
            <CheckField
              checked={accepted.includes(one.key)}
              onChange={() => onAccept(switched(accepted, one.key, one.covers))}
              label={
                <>
                  {countText(one.calls.length)} calls from <code>{one.calls[0]}</code> → one step for each of <code className={styles.reference}>{one.items}</code>
                </>
              }
              hint={
                <>
                  {sureness(one)}: {one.why}.{one.isDeletion && " Its tool removes something."}
                </>
              }
            />
          </li>
        ))}
      </ul>
      {weak > 0 && (
        <Button look="quiet" aria-expanded={showsWeak} onClick={() => showWeak(!showsWeak)}>
          {showsWeak ? "Hide" : "Show"} the {countText(weak)} that are only possible
        </Button>
      )}
    </Section>
  );
}

interface DefinitionProps extends ChoiceProps {
  /** Whether there is a call of which a definition can be made, with what is chosen now. */
  isUsable: boolean;
  /** Whether a call has failed, so that it can be chosen as well. */
  hasFailed: boolean;
  onFailed: (wanted: boolean) => void;
}

function DefinitionText({ recording, accepted, failed, isUsable, hasFailed, onFailed }: DefinitionProps) {
  const made = useQuery({
    queryKey: ["post", "/api/recordings/{recording}/definition", recording.id, failed, accepted, recording.lastAt, recording.callsInAll],
    queryFn: async () => (await api.POST("/api/recordings/{recording}/definition", { params: { path: { recording: recording.id } }, body: { accept: accepted, failed } })).data as Schemas["RecordedDocument"],
    placeholderData: keepPreviousData,
    retry: false,
    enabled: isUsable,
  });
  const text = isUsable ? made.data?.text : undefined;
  return (
    <Section title="The definition" actions={text !== undefined && <CopyButton text={text} label="Copy the definition" />}>
      {hasFailed && <CheckField label="With the calls that have failed" checked={failed} onChange={onFailed} />}
      {!isUsable && <p className={blocks.soft}>No call has a result yet, so there is no definition without those that have failed.</p>}
      {isUsable && made.error && <ErrorNotice error={made.error} />}
      {isUsable && made.isPending && <Loading what="the definition" />}
      {text !== undefined && (
        <pre className={blocks.code} tabIndex={0} aria-label="The text of the definition">
          {text}
        </pre>
      )}
    </Section>
  );
}

function shortText(value: unknown): string {
  const text = typeof value === "string" ? `"${value}"` : writeExact(value);
  return text.length > SHOWN_CHARACTERS_MAX ? `${text.slice(0, SHOWN_CHARACTERS_MAX)}…` : text;
}
