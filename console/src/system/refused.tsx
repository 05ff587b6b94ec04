// Stands in place of what a person may not see, with the reason.
import { Empty } from "@/parts/notice";

/** Says what is not shown, and why. */
export function Refused({ what, why }: { what: string; why: string }) {
  return (
    <Empty title={`${what} are not shown to you`}>
      <p>{why}.</p>
    </Empty>
  );
}
