// Joins the pieces of the live text of an execution, of which each says where in the text of its step it belongs.
import type { Schemas } from "@/api/client";

export type Piece = Schemas["LiveText"];

/** The texts by the paths of their steps. */
export type LiveTexts = Readonly<Record<string, string>>;

/** The texts with one more piece, which takes the place of everything from its offset on. Offsets count characters, of which some are two in a string here. */
export function withPiece(texts: LiveTexts, piece: Piece): LiveTexts {
  const kept = piece.offset ? Array.from(texts[piece.path] ?? "").slice(0, piece.offset).join("") : "";
  return { ...texts, [piece.path]: kept + piece.text };
}
