// How the state of a proposal is said.
import type { Schemas } from "@/api/client";

type Proposal = Pick<Schemas["ProposalSummary"], "status" | "expired" | "appliedVersion" | "failure">;

/** The state of a proposal in a word; an open one that nobody has applied in time has expired. */
export function proposalState(proposal: Proposal): string {
  return proposal.expired ? "expired" : proposal.status;
}

/** The states of executions whose glyph and whose colour fit those of a proposal. */
export const PROPOSAL_MARKS: Record<string, { glyphOf: string; styleOf: string }> = {
  pending: { glyphOf: "waiting_approval", styleOf: "waiting_approval" },
  approved: { glyphOf: "completed", styleOf: "running" },
  applied: { glyphOf: "completed", styleOf: "completed" },
  rejected: { glyphOf: "cancelled", styleOf: "cancelled" },
  failed: { glyphOf: "failed", styleOf: "failed" },
  expired: { glyphOf: "cancelled", styleOf: "cancelled" },
};

/** What a proposal may do that its definition may not do now, as people say it. */
export const RIGHTS: Record<string, string> = {
  allow: "what it may change by itself",
  triggers: "what starts it",
  limits: "its limits",
  secrets: "the secrets that it uses",
  bash: "shell commands",
  http: "the hosts that it sends requests to",
  imports: "the modules that it imports",
};
