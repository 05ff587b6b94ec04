// What people can be notified of, in words.
import type { Schemas } from "@/api/client";

export type NotificationKind = Schemas["NotificationRule"]["kinds"][number];

export const KIND_NAMES: Record<NotificationKind, string> = {
  asked: "approvals that are asked for",
  reminder: "approvals that still wait",
  escalated: "approvals that go to others",
  failure: "executions that fail",
  needs_attention: "executions that need attention",
  breaker_open: "triggers that pause themselves",
  proposal_filed: "proposals that wait for a review",
  dead_letter_surge: "a surge of dead letters",
};
