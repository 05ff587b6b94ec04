// How the state of a proposal is said.
import type { Schemas } from "@/api/client";

type Proposal = Pick<Schemas["ProposalSummary"], "status" | "expired" | "appliedVersion" | "failure">;

/** The state of a proposal in a word; an open one that nobody has applied in time has expired. */
export function proposalState(proposal: Proposal): string {
  return proposal.expired ? "expired" : proposal.status;
}

/** The state of an execution whose glyph and colour fit that of a proposal. */
export const PROPOSAL_MARKS: Record<string, string> = { pending: "waiting_approval", approved: "running", applied: "completed", rejected: "cancelled", failed: "failed", expired: "cancelled" };

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
