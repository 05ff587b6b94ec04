// The tools that steps of definitions may call: which engines have each.
import { useState } from "react";
import { queries } from "@/api/client";
import { usePolling } from "@/api/polling";
import blocks from "@/parts/blocks.module.css";
import { Empty, ErrorNotice, Loading } from "@/parts/notice";
import { SimpleTable } from "@/parts/simple-table";
import { useRefusal } from "@/shell/identity";
import { countText } from "@/words/times";
import { Refused } from "./refused";

/** The tab of tools. */
export function ToolTab() {
  const refusal = useRefusal("viewer", "kinds.tools");
  const [wanted, setWanted] = useState("");
  const tools = queries.useQuery("get", "/api/tools", {}, { ...usePolling(30), enabled: refusal === "" });
  if (refusal) return <Refused what="The tools" why={refusal} />;
  if (tools.error && !tools.data) return <ErrorNotice error={tools.error} onRetry={() => void tools.refetch()} />;
  if (!tools.data) return <Loading what="the tools" />;
  const all = tools.data.items;
  const rows = all.filter((one) => one.name.toLowerCase().includes(wanted.trim().toLowerCase()));
  if (all.length === 0)
    return (
      <Empty title="No running engine has tools for definitions of the catalog">
        <p>
          Give an engine some: <code>perdure serve --tools tools.py</code>, or <code>--tools mcp.json</code> for those of MCP servers.
        </p>
      </Empty>
    );
  return (
    <div className={blocks.stack}>
      <div className={blocks.row}>
        <input type="search" className={blocks.search} aria-label="Tools whose names contain" placeholder="Name contains …" value={wanted} onChange={(event) => setWanted(event.target.value)} />
        <span role="status" className={blocks.soft}>
          {countText(rows.length)} of {countText(all.length)}
        </span>
      </div>
      <SimpleTable
        label="Tools"
        rows={rows}
        keyOf={(one) => `${one.name}@${one.version ?? ""}`}
        empty="No tool has this in its name."
        columns={[
          { id: "name", title: "Name", cell: (one) => <code>{one.name}</code> },
          { id: "version", title: "Version", cell: (one) => one.version ?? "–" },
          { id: "engines", title: "Engines that have it", cell: (one) => one.engines.join(", ") },
        ]}
      />
    </div>
  );
}
