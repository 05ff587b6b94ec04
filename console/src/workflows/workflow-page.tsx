// One workflow: how it stands, its versions, its graph and its triggers, and what can be done with it.
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { lazy, type ReactNode, Suspense, useState } from "react";
import { api, queries } from "@/api/client";
import { usePages } from "@/api/pages";
import { Problem } from "@/api/problem";
import { usePolling, usePollingIfThere } from "@/api/polling";
import blocks from "@/parts/blocks.module.css";
import { Button } from "@/parts/button";
import buttons from "@/parts/button.module.css";
import { download } from "@/parts/download";
import { Menu } from "@/parts/menu";
import { Empty, ErrorNotice, Loading, Notice } from "@/parts/notice";
import { Facts, Page, Section } from "@/parts/page";
import type { JsonSchema } from "@/parts/schema-form";
import { type Tab, Tabs } from "@/parts/tabs";
import { TimeText } from "@/parts/time-text";
import { WordsDialog } from "@/proposals/words-dialog";
import { useRefusal } from "@/shell/identity";
import { useView } from "@/shell/search";
import { tellEveryone } from "@/shell/told";
import { errorText } from "@/words/failures";
import { DeleteDialog, DetailsDialog, SwitchDialog, TagDialog } from "./definition-dialogs";
import { ImportDialog } from "./import-dialog";
import { OpenExecutions } from "./open-executions";
import { outcomeSentence } from "./outcome-counts";
import { OutcomeStrip } from "./outcome-strip";
import { StartDialog } from "./start-dialog";
import { TriggerRows } from "./trigger-rows";
import { useVersions, VersionList } from "./version-list";
import { type CodeWorkflow, type Definition, useOutcomes } from "./workflow-data";

const PlanGraph = lazy(async () => ({ default: (await import("./plan-graph")).PlanGraph }));

/** The page of a workflow. */
export function WorkflowPage() {
  const { slug } = useParams({ strict: false }) as { slug: string };
  const found = queries.useQuery("get", "/api/workflows/{definition}", { params: { path: { definition: slug } } }, usePollingIfThere());
  const isMissing = found.error instanceof Problem && (found.error as Problem).status === 404;
  const code = queries.useQuery("get", "/api/workflows", { params: { query: { kind: "code", text: slug, limit: 500 } } }, { enabled: isMissing, ...usePolling() });
  if (found.data) return <DefinitionPage definition={found.data} key={slug} />;
  if (found.error && !isMissing)
    return (
      <Page title={slug} name={slug}>
        <ErrorNotice error={found.error} onRetry={() => void found.refetch()} />
      </Page>
    );
  const known = code.data?.code?.find((one) => one.slug === slug);
  if (known) return <CodePage workflow={known} key={slug} />;
  if (isMissing && (code.data || code.error)) return <GonePage slug={slug} />;
  return (
    <Page title={slug} name={slug}>
      <Loading what="the workflow" />
    </Page>
  );
}

type Shown = "" | "start" | "words" | "details" | "switch" | "tag" | "delete" | "duplicate";

function DefinitionPage({ definition }: { definition: Definition }) {
  const view = useView();
  const author = useRefusal("author");
  const operator = useRefusal("operator");
  const navigate = useNavigate();
  const [shown, show] = useState<Shown>("");
  const [startedVersion, setStartedVersion] = useState("");
  const [copy, setCopy] = useState("");
  const close = () => show("");
  const reference = `${definition.slug}@${startedVersion || definition.version}`;
  const version = queries.useQuery("get", "/api/workflow-versions/{reference}", { params: { path: { reference } } }, { enabled: definition.version !== "", staleTime: 60_000 });
  const { versions } = useVersions(definition.slug);
  const noVersion = definition.version ? "" : "It has no version yet; publish its draft in the editor";
  const owned = definition.owner ? `The folder ${definition.owner} is in step with the catalog, and would bring it back; delete its file there` : "";
  const ownedByFile = definition.owner ? `The folder ${definition.owner} is in step with the catalog; change its file there` : "";
  const withText = async (act: (text: string) => void) => {
    try {
      const read = await api.GET("/api/workflow-versions/{reference}", { params: { path: { reference: `${definition.slug}@${definition.version}` } } });
      if (read.data) act(read.data.received);
    } catch (error) {
      tellEveryone(errorText(error).text, "bad");
    }
  };
  const tabs: Tab[] = [
    { id: "overview", title: "Overview", content: () => <Overview definition={definition} /> },
    {
      id: "versions",
      title: "Versions",
      content: () => <VersionList slug={definition.slug} definition={definition} onStart={(one) => (setStartedVersion(one), show("start"))} onTag={() => show("tag")} />,
    },
    { id: "graph", title: "Graph", content: () => (definition.version ? <Graph reference={`${definition.slug}@${view.text("version") || definition.version}`} /> : <Empty title={noVersion} />) },
    { id: "triggers", title: "Triggers", content: () => <TriggerRows workflow={definition.slug} /> },
    { id: "history", title: "History", content: () => <History slug={definition.slug} /> },
  ];
  return (
    <Page
      title={definition.slug}
      name={definition.slug}
      below={
        <div className={blocks.stack}>
          {definition.description && <p className={blocks.plain} dir="auto">{definition.description}</p>}
          <p className={blocks.row}>
            <span>{definition.version ? `version ${definition.version}` : "no version yet"}</span>
            {definition.hasDraft && (
              <Link to="/workflows/$slug/edit" params={{ slug: definition.slug }}>
                has a draft
              </Link>
            )}
            {definition.tags.map((tag) => (
              <Link key={tag} to="/workflows" search={{ tag }} className={blocks.chip}>
                {tag}
              </Link>
            ))}
            {Object.entries(definition.versionTags).map(([tag, at]) => (
              <span key={tag} className={blocks.chip}>
                :{tag} = {at.version}
              </span>
            ))}
          </p>
        </div>
      }
      actions={
        <>
          <Button look="main" refusal={operator || noVersion || (definition.enabled ? "" : "New starts are paused")} onClick={() => (setStartedVersion(""), show("start"))}>
            Start…
          </Button>
          <Link to="/workflows/$slug/edit" params={{ slug: definition.slug }} className={buttons.button}>
            {author ? "Open in the editor" : "Edit"}
          </Link>
          <Button refusal={author} onClick={() => show("switch")}>
            {definition.enabled ? "Pause new starts…" : "Take new starts…"}
          </Button>
          <Menu
            title="More"
            label="More actions"
            items={[
              { title: "Change with words…", refusal: operator || noVersion || ownedByFile, onChoose: () => show("words") },
              { title: "Change details…", refusal: author, onChoose: () => show("details") },
              { title: "Duplicate…", refusal: author || noVersion, onChoose: () => void withText((text) => (setCopy(text), show("duplicate"))) },
              { title: "Export the text", refusal: noVersion, onChoose: () => void withText((text) => download(`${definition.slug}-${definition.version}.${/^\s*[{[]/.test(text) ? "json" : "yaml"}`, text)) },
              { title: "Proposals", onChoose: () => void navigate({ to: "/proposals", search: { definition: definition.slug } }) },
              { title: "Delete…", danger: true, refusal: author || owned, onChoose: () => show("delete") },
            ]}
          />
        </>
      }
    >
      {!definition.enabled && (
        <Notice look="warn">
          <p>
            New starts are paused: nobody can start it, and its triggers start nothing. Executions in progress go on. It was changed last by {definition.updatedBy}, <TimeText at={definition.updatedAt} />.
          </p>
        </Notice>
      )}
      <Tabs label={`Views of ${definition.slug}`} tabs={tabs} chosen={view.text("tab") || (view.text("version") ? "versions" : "overview")} onChoose={(tab) => view.change({ tab })} />
      {shown === "start" && version.data && <StartDialog start={{ reference, workflow: definition.slug, isCode: false, schema: version.data.inputSchema as JsonSchema }} onClose={close} />}
      {shown === "words" && <WordsDialog slug={definition.slug} onClose={close} />}
      {shown === "details" && <DetailsDialog definition={definition} onClose={close} />}
      {shown === "switch" && <SwitchDialog definition={definition} onClose={close} />}
      {shown === "tag" && <TagDialog definition={definition} versions={[...new Set(versions.map((one) => one.version ?? "").filter(Boolean))]} onClose={close} />}
      {shown === "delete" && <DeleteDialog definition={definition} onClose={close} />}
      {shown === "duplicate" && <ImportDialog title={`Duplicate ${definition.slug}`} submit="Create" document={copy} slug={`${definition.slug}-copy`} note={`Copied from ${definition.slug}@${definition.version}`} onClose={close} />}
    </Page>
  );
}

function Strip({ workflow }: { workflow: string }) {
  const outcomes = useOutcomes([workflow]);
  const of = outcomes.byWorkflow.get(workflow);
  if (!of) return <Loading what="the outcomes" />;
  return (
    <p className={blocks.row}>
      <OutcomeStrip of={of} fromAt={outcomes.fromAt} untilAt={outcomes.untilAt} isSaid /> <span aria-hidden="true">{outcomeSentence(of.hours, "24 h", of.isPartial)}.</span>
      {of.isPartial && (
        <span className={blocks.soft}>
          Counted from <TimeText at={of.countedFromAt} /> on only.
        </span>
      )}
    </p>
  );
}

function Overview({ definition }: { definition: Definition }) {
  return (
    <div className={blocks.sections}>
      <Section title="Outcomes of the last 24 hours">
        <Strip workflow={definition.slug} />
      </Section>
      <Section title="Open executions by version">
        <OpenExecutions workflow={definition.slug} current={definition.version} isCode={false} />
      </Section>
      <Section title="About">
        <Facts
          of={[
            ["Name", definition.name],
            ["Version", definition.version],
            ["Content", <code key="hash">{definition.hash}</code>],
            ["Created", <><TimeText key="at" at={definition.createdAt} /> by {definition.createdBy}</>],
            ["Changed", <><TimeText key="at" at={definition.updatedAt} /> by {definition.updatedBy}</>],
            ["In step with the folder", definition.owner],
          ]}
        />
      </Section>
    </div>
  );
}

function Graph({ reference }: { reference: string }) {
  return (
    <Suspense fallback={<Loading what="the graph" />}>
      <PlanGraph reference={reference} />
    </Suspense>
  );
}

const KINDS: Record<string, string> = {
  create: "created",
  update: "published a version",
  sync: "published a version from a folder",
  rollback: "rolled back",
  edit: "changed details",
  enable: "took new starts again",
  disable: "paused new starts",
  tag: "moved a tag",
  untag: "removed a tag",
  delete: "deleted it",
};

function History({ slug }: { slug: string }) {
  const query = usePages("/api/workflows/{definition}/history", { slug }, (before?: number) => api.GET("/api/workflows/{definition}/history", { params: { path: { definition: slug }, query: { limit: 50, before } } }));
  if (query.error) return <ErrorNotice error={query.error} />;
  if (query.isPending) return <Loading what="the history" />;
  return (
    <div className={blocks.stack}>
      <ol className={blocks.stack}>
        {query.data.pages.flatMap((one) => one.items).map((one) => (
          <li key={one.number}>
            <TimeText at={one.at} />: {one.by} {KINDS[one.kind] ?? one.kind}
            {one.version ? ` ${one.version}` : ""}
            {one.tag ? ` :${one.tag}` : ""}
            {one.fromVersion && one.fromVersion !== one.version ? `, before ${one.fromVersion}` : ""}
            {one.changed?.length ? `: ${one.changed.join(", ")}` : ""} {one.note && <q className={blocks.plain}>{one.note}</q>}
          </li>
        ))}
      </ol>
      {query.hasNextPage && (
        <div>
          <Button busy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
            Older entries
          </Button>
        </div>
      )}
    </div>
  );
}

function CodePage({ workflow }: { workflow: CodeWorkflow }) {
  const view = useView();
  const operator = useRefusal("operator");
  const [isStarting, setStarting] = useState(false);
  const noEngine = workflow.engines.length ? "" : "No engine that knows it is alive";
  return (
    <Page
      title={workflow.slug}
      name={workflow.slug}
      below={<p>code, version {workflow.version}</p>}
      actions={
        <Button look="main" refusal={operator || noEngine} onClick={() => setStarting(true)}>
          Start…
        </Button>
      }
    >
      <Tabs
        label={`Views of ${workflow.slug}`}
        chosen={view.text("tab")}
        onChoose={(tab) => view.change({ tab })}
        tabs={[
          {
            id: "overview",
            title: "Overview",
            content: () => (
              <div className={blocks.sections}>
                <Section title="Outcomes of the last 24 hours">
                  <Strip workflow={workflow.slug} />
                </Section>
                <Section title="Open executions by version">
                  <OpenExecutions workflow={workflow.slug} current={String(workflow.version)} isCode />
                </Section>
                <Section title="Engines that know it">
                  {workflow.engines.length === 0 ? <p>{noEngine}.</p> : <ul>{workflow.engines.map((one) => <li key={one}><Link to="/system" search={{ tab: "engines" }}>{one}</Link></li>)}</ul>}
                </Section>
                <p className={blocks.soft}>Its versions are those of its code, and are changed where that is. It can't be switched off here: stop the engines that know it, or pause its triggers.</p>
              </div>
            ),
          },
          { id: "triggers", title: "Triggers", content: () => <TriggerRows workflow={workflow.slug} /> },
        ]}
      />
      {isStarting && <StartDialog start={{ reference: workflow.slug, workflow: workflow.slug, isCode: true, schema: workflow.inputSchema as JsonSchema | null }} onClose={() => setStarting(false)} />}
    </Page>
  );
}

/** A workflow that is no definition of the catalog and no code of a living engine: what is still known of it. */
function GonePage({ slug }: { slug: string }) {
  const { versions, query } = useVersions(slug);
  const executions: ReactNode = (
    <Link to="/executions" search={{ workflow: slug }}>
      Its executions
    </Link>
  );
  return (
    <Page title={slug} name={slug}>
      {versions.length > 0 ? (
        <>
          <Notice look="warn">
            <p>This definition was deleted. Its versions can still be read; to have it back, export one of them and import it. {executions} are still there.</p>
          </Notice>
          <VersionList slug={slug} onStart={() => undefined} onTag={() => undefined} />
        </>
      ) : query.isPending ? (
        <Loading what="the workflow" />
      ) : (
        <Empty title={`There is no workflow ${slug}`}>
          <p>It is no definition of this tenant, and no engine that is alive has code of this name. Start an engine that has it, or look for a part of its name in the list. {executions}, if it had some, are still there.</p>
          <Link to="/workflows">All workflows</Link>
        </Empty>
      )}
    </Page>
  );
}
