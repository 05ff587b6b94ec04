// The system: its health, its engines and queues, its keys and people, and what was done.
import { lazy, type ReactNode, Suspense } from "react";
import { Loading } from "@/parts/notice";
import { Page } from "@/parts/page";
import { Tabs } from "@/parts/tabs";
import { useView } from "@/shell/search";
import { EngineTab } from "./engine-tab";
import { HealthTab } from "./health-tab";
import { QueueTab } from "./queue-tab";

const part = <Name extends string>(load: () => Promise<Record<Name, () => ReactNode>>, name: Name) => lazy(async () => ({ default: (await load())[name] }));
const RateTab = part(() => import("./rate-tab"), "RateTab");
const ToolTab = part(() => import("./tool-tab"), "ToolTab");
const CostTab = part(() => import("./cost-tab"), "CostTab");
const SecretTab = part(() => import("./secret-tab"), "SecretTab");
const KeyTab = part(() => import("./key-tab"), "KeyTab");
const SessionTab = part(() => import("./session-tab"), "SessionTab");
const PeopleTab = part(() => import("./people-tab"), "PeopleTab");
const NotificationTab = part(() => import("./notification-tab"), "NotificationTab");
const AuditTab = part(() => import("./audit-tab"), "AuditTab");

/** The page of the system. */
export function SystemPage() {
  const view = useView();
  const later = (content: ReactNode) => () => <Suspense fallback={<Loading what="this view" />}>{content}</Suspense>;
  return (
    <Page title="System" name="System">
      <Tabs
        label="Parts of the system"
        chosen={view.text("tab")}
        onChoose={(tab) => view.change({ tab, after: undefined })}
        tabs={[
          { id: "health", title: "Health", content: () => <HealthTab /> },
          { id: "engines", title: "Engines and workers", content: () => <EngineTab /> },
          { id: "queues", title: "Queues", content: () => <QueueTab /> },
          { id: "rates", title: "Rates", content: later(<RateTab />) },
          { id: "tools", title: "Tools", content: later(<ToolTab />) },
          { id: "costs", title: "Model costs", content: later(<CostTab />) },
          { id: "secrets", title: "Secrets", content: later(<SecretTab />) },
          { id: "keys", title: "Keys", content: later(<KeyTab />) },
          { id: "sessions", title: "Sessions", content: later(<SessionTab />) },
          { id: "people", title: "People", content: later(<PeopleTab />) },
          { id: "notifications", title: "Notifications", content: later(<NotificationTab />) },
          { id: "audit", title: "Audit", content: later(<AuditTab />) },
        ]}
      />
    </Page>
  );
}
