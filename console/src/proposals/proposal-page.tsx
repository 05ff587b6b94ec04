// One proposal: what it changes, whether it still fits, what it would have done; its review, and its application, which are separate.
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";
import { api, queries, refresh, type Schemas } from "@/api/client";
import { usePollingIfThere } from "@/api/polling";
import { Problem } from "@/api/problem";
import { Button } from "@/parts/button";
import { Dialog } from "@/parts/dialog";
import { ErrorNotice, Loading, Notice } from "@/parts/notice";
import { Facts, Page, Section } from "@/parts/page";
import { TimeText } from "@/parts/time-text";
import { useIdentity, useRefusal } from "@/shell/identity";
import { ChangeList } from "@/workflows/version-diff";
import { tellEveryone } from "@/shell/told";
import { ProposalState } from "./proposal-state";
import { RIGHTS } from "./proposal-words";
import { Trial } from "./trial";
import styles from "./proposal-page.module.css";

type Proposal = Schemas["ProposalDetails"];

const TextDiff = lazy(async () => ({ default: (await import("@/parts/text-diff")).TextDiff }));

/** The page of a proposal. */
export function ProposalPage() {
  const { id } = useParams({ strict: false }) as { id: string };
  const found = queries.useQuery("get", "/api/proposals/{proposal}", { params: { path: { proposal: id } } }, usePollingIfThere(10));
  if (found.isPending) return <Loading what="the proposal" />;
  if (!found.data)
    return (
      <Page title="Proposal" name="Proposal">
        <ErrorNotice error={found.error} onRetry={() => void found.refetch()} />
      </Page>
    );
  return <Details key={id} proposal={found.data} />;
}

function Details({ proposal }: { proposal: Proposal }) {
  const isOpen = (proposal.status === "pending" || proposal.status === "approved") && !proposal.expired;
  const base = proposal.baseWorkflowHash;
  const isStale = isOpen && proposal.stale;
  return (
    <Page
      title={<>A change of {proposal.slug}</>}
      name={`A change of ${proposal.slug}`}
      below={
        <>
          <ProposalState proposal={proposal} /> {proposal.note}
        </>
      }
      actions={<Actions proposal={proposal} isOpen={isOpen} isStale={isStale} />}
    >
      {isStale && <Stale proposal={proposal} />}
      {proposal.failure && <Notice look="warn">It could not be applied: {proposal.failure}</Notice>}
      {proposal.widensRights.length > 0 && <Notice look="warn">It widens rights, so an admin has to review it: it changes {proposal.widensRights.map((one) => RIGHTS[one] ?? one).join(", ")}.</Notice>}
      <Facts
        of={[
          ["Definition", proposal.workflowId === null ? `${proposal.slug} (new)` : <Link to="/workflows/$slug" params={{ slug: proposal.slug }}>{proposal.slug}</Link>],
          ["Proposed by", [proposal.proposedBy, ...(proposal.onBehalfOf.length ? [`for ${proposal.onBehalfOf.join(", ")}`] : [])].join(" ")],
          ["Written by the model", proposal.model],
          ["Proposed", <TimeText key="at" at={proposal.createdAt} />],
          ["Expires", isOpen ? <TimeText at={proposal.expiresAt} /> : ""],
          ["From the execution", proposal.execution && <Link to="/executions/$workflow/$id" params={proposal.execution}>{`${proposal.execution.workflow}/${proposal.execution.id}`}</Link>],
          ["Reviewed by", proposal.reviewedBy && <>{proposal.reviewedBy}, <TimeText at={proposal.reviewedAt} /></>],
          ["Notes of the review", proposal.reviewNotes],
          ["Applied by", proposal.appliedBy && <>{proposal.appliedBy}, <TimeText at={proposal.appliedAt} />, as version {proposal.appliedVersion}</>],
          ["Base", base ? <code>{base.slice(0, 19)}</code> : "none: it is the first version"],
          ["Hash", <code key="hash">{proposal.workflowHash.slice(0, 19)}</code>],
        ]}
      />
      <Section title="What it changes">
        <ChangeList changes={proposal.changes} />
      </Section>
      <Section title="The text">
        {base !== null && proposal.baseReceived === null && <Notice look="warn">The text of its base is not kept any more, so all of it is shown as new.</Notice>}
        <Suspense fallback={<Loading what="the view of texts" />}>
          <TextDiff before={proposal.baseReceived ?? ""} after={proposal.received} beforeName="The base" afterName={`The text that is proposed for ${proposal.slug}`} />
        </Suspense>
      </Section>
      <Trial proposal={proposal} />
    </Page>
  );
}

function useVersion(reference: string) {
  return useQuery({
    queryKey: ["version", reference],
    queryFn: async () => (await api.GET("/api/workflow-versions/{reference}", { params: { path: { reference } } })).data ?? null,
    enabled: reference !== "",
  });
}

function Actions({ proposal, isOpen, isStale }: { proposal: Proposal; isOpen: boolean; isStale: boolean }) {
  const [asked, ask] = useState<"" | "approve" | "reject" | "apply">("");
  const identity = useIdentity();
  const missing = useRefusal(proposal.widensRights.length ? "admin" : "author");
  const isOwn = identity?.subject === proposal.proposedBy || proposal.onBehalfOf.includes(identity?.subject ?? "");
  const closed = isOpen ? "" : "The proposal is closed";
  const review = closed || missing || (isOwn ? "You have proposed it, so somebody else has to review it" : "") || (proposal.status === "pending" ? "" : "It is reviewed already");
  const apply = closed || missing || (proposal.status === "approved" ? "" : "It has to be approved first") || (isStale ? "Its base is not the current version any more" : "");
  if (!isOpen) return null;
  return (
    <>
      <Button look="main" refusal={review} onClick={() => ask("approve")}>
        Approve …
      </Button>
      <Button look="danger" refusal={review} onClick={() => ask("reject")}>
        Reject …
      </Button>
      <Button refusal={apply} onClick={() => ask("apply")}>
        Apply …
      </Button>
      {asked && <ReviewDialog key={asked} proposal={proposal} act={asked} onClose={() => ask("")} />}
    </>
  );
}

function ReviewDialog({ proposal, act, onClose }: { proposal: Proposal; act: "approve" | "reject" | "apply"; onClose: () => void }) {
  const [notes, setNotes] = useState("");
  const path = { proposal: proposal.id };
  const perform = useMutation({
    mutationFn: async () =>
      act === "apply"
        ? (await api.POST("/api/proposals/{proposal}/apply", { params: { path }, body: { revision: proposal.revision } })).data
        : (await api.POST("/api/proposals/{proposal}/review", { params: { path }, body: { decision: act, reviewNotes: notes || undefined, revision: proposal.revision } })).data,
    onSettled: () => void refresh("/api/proposals", "/api/workflows"),
    onSuccess: (done) => {
      tellEveryone(act === "apply" && done ? (done.status === "applied" ? `Applied as version ${done.appliedVersion}` : `It could not be applied: ${done.failure}`) : act === "approve" ? "Approved; it can be applied now" : "Rejected", done?.status === "failed" ? "bad" : "good");
      onClose();
    },
  });
  const says = {
    approve: "You find the change right. It takes effect when somebody applies it, which is another act.",
    reject: "The proposal is closed. It can be proposed again.",
    apply: `The document becomes the current version of ${proposal.slug}. New executions take it; those that have begun go on with theirs.`,
  }[act];
  return (
    <Dialog
      title={{ approve: "Approve the change", reject: "Reject the change", apply: "Apply the change" }[act]}
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Do nothing</Button>
          <Button look={act === "reject" ? "danger" : "main"} busy={perform.isPending} onClick={() => perform.mutate()}>
            {act}
          </Button>
        </>
      }
    >
      <p>{says}</p>
      {act !== "apply" && (
        <label className={styles.notes}>
          Notes (optional)
          <textarea rows={3} value={notes} onChange={(event) => setNotes(event.target.value)} />
        </label>
      )}
      {perform.error && <ErrorNotice error={perform.error} />}
      {perform.error instanceof Problem && perform.error.status === 409 && <p>Somebody else was first. Close this, and look at the proposal again.</p>}
    </Dialog>
  );
}

/** Says that the definition has another version by now, and proposes the same document on that. */
function Stale({ proposal }: { proposal: Proposal }) {
  const [isOpen, setOpen] = useState(false);
  const navigate = useNavigate();
  const refusal = useRefusal("operator");
  const current = useVersion(isOpen ? proposal.slug : "");
  const rebase = useMutation({
    mutationFn: async () => {
      const { data } = await api.POST("/api/workflows/{definition}/proposals", {
        params: { path: { definition: proposal.slug } },
        body: { proposalJson: proposal.received as never, baseWorkflowHash: current.data?.hash ?? null, note: proposal.note || undefined },
      });
      return data;
    },
    onSuccess: (made) => {
      setOpen(false);
      tellEveryone("Proposed on the current version");
      void refresh("/api/proposals");
      if (made) void navigate({ to: "/proposals/$id", params: { id: made.id } });
    },
  });
  return (
    <Notice look="warn">
      <p>The definition has another version since this was proposed, so it can't be applied.</p>
      <Button refusal={refusal} onClick={() => setOpen(true)}>
        Propose it on the current version …
      </Button>
      {isOpen && (
        <Dialog
          wide
          title="Propose it on the current version"
          onClose={() => setOpen(false)}
          actions={
            <>
              <Button onClick={() => setOpen(false)}>Do nothing</Button>
              <Button look="main" busy={rebase.isPending} refusal={current.data ? "" : "The current version is being read"} onClick={() => rebase.mutate()}>
                Propose
              </Button>
            </>
          }
        >
          <p>This is what the same text would change in the current version. What is struck out and was not meant is what others have changed meanwhile: change the text in the editor in place of this then.</p>
          {current.data && (
            <Suspense fallback={<Loading what="the view of texts" />}>
              <TextDiff before={current.data.received} after={proposal.received} beforeName="The current version" afterName="The text that is proposed" />
            </Suspense>
          )}
          {current.error && <ErrorNotice error={current.error} />}
          {rebase.error && <ErrorNotice error={rebase.error} />}
        </Dialog>
      )}
    </Notice>
  );
}
