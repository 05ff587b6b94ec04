// The mark of a proposal's state.
import { stateWord } from "@/words/states";
import marks from "@/parts/state-mark.module.css";
import { PROPOSAL_MARKS, proposalState } from "./proposal-words";

/** Shows the state of a proposal by its word, with a glyph and colour. */
export function ProposalState({ proposal }: { proposal: Parameters<typeof proposalState>[0] }) {
  const word = proposalState(proposal);
  const { glyphOf, styleOf } = PROPOSAL_MARKS[word] ?? { glyphOf: word, styleOf: word };
  return (
    <span className={`${marks.mark} ${marks[stateWord(styleOf).style]}`}>
      <span aria-hidden="true">{stateWord(glyphOf).glyph}</span> {word}
    </span>
  );
}
