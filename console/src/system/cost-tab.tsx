// What calls of models have used and cost, by workflow, step and model.
import { Link } from "@tanstack/react-router";
import { queries } from "@/api/client";
import blocks from "@/parts/blocks.module.css";
import { ChoiceField } from "@/parts/field";
import { Empty, ErrorNotice, Loading, Notice } from "@/parts/notice";
import { SimpleTable } from "@/parts/simple-table";
import { useRefusal } from "@/shell/identity";
import { useView } from "@/shell/search";
import { countText } from "@/words/times";
import { Refused } from "./refused";

const DAY_S = 86_400;
const TIMES = [
  [String(DAY_S), "of the last day"],
  [String(7 * DAY_S), "of the last 7 days"],
  [String(30 * DAY_S), "of the last 30 days"],
] as const;

/** The tab of the costs of models. */
export function CostTab() {
  const refusal = useRefusal("viewer", "executions.model_costs");
  const view = useView();
  const within = view.text("within") || String(7 * DAY_S);
  const costs = queries.useQuery("get", "/api/model-costs", { params: { query: { withinSeconds: Number(within) } } }, { enabled: refusal === "" });
  if (refusal) return <Refused what="The costs of models" why={refusal} />;
  return (
    <div className={blocks.stack}>
      <div className={blocks.row}>
        <ChoiceField label="Costs" value={within} onChange={(value) => view.change({ within: value }, true)} choices={TIMES} />
        {costs.data && (
          <strong role="status">{dollars(costs.data.costUsd)} in all</strong>
        )}
      </div>
      {costs.error && <ErrorNotice error={costs.error} onRetry={() => void costs.refetch()} />}
      {costs.isPending && <Loading what="the costs" />}
      {costs.data?.isPartial && <Notice look="warn">There were more answers than are summed; those of the earliest days are missing.</Notice>}
      {costs.data && costs.data.costs.length === 0 && (
        <Empty title="No model has answered in this time">
          <p>What each answer of a model uses is recorded; prices are in the file that names the models.</p>
        </Empty>
      )}
      {costs.data && costs.data.costs.length > 0 && (
        <SimpleTable
          label="Costs of models"
          rows={costs.data.costs}
          keyOf={(one) => `${one.workflow} ${one.step} ${one.model}`}
          columns={[
            { id: "workflow", title: "Workflow", cell: (one) => <Link to="/executions" search={{ workflow: one.workflow }}><bdi>{one.workflow}</bdi></Link> },
            { id: "step", title: "Step", cell: (one) => <code>{one.step || "–"}</code> },
            { id: "model", title: "Model", cell: (one) => one.model },
            { id: "answers", title: "Answers", align: "end", cell: (one) => countText(one.answers) },
            { id: "in", title: "Tokens in", align: "end", cell: (one) => `${countText(one.inputTokens)}${one.cacheReadTokens ? `, ${countText(one.cacheReadTokens)} from the cache` : ""}` },
            { id: "out", title: "Tokens out", align: "end", cell: (one) => countText(one.outputTokens) },
            { id: "cost", title: "Cost", align: "end", cell: (one) => `${dollars(one.costUsd)}${one.unpriced ? `, and ${countText(one.unpriced)} without a price` : ""}` },
          ]}
        />
      )}
    </div>
  );
}

/** An amount of US dollars, exact enough for small ones. */
function dollars(amount: number): string {
  return `$${amount.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: amount !== 0 && amount < 1 ? 6 : 2 })}`;
}
