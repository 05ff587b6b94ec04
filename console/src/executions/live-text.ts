// The live text of the steps of an execution: what they have written so far, for as long as they have no outcome. No log has it.
import { useQuery } from "@tanstack/react-query";
import { EventSourceParserStream } from "eventsource-parser/stream";
import { api, queryClient } from "@/api/client";
import { parseExact } from "@/api/exact-json";
import { Problem, type ProblemDetails, unreachable } from "@/api/problem";
import { type ExecutionKey, requestOf } from "./execution-reads";
import { type LiveTexts, type Piece, withPiece } from "./live-text-pieces";

const AGAIN_MS = 2_000; // a stream that a proxy has closed is read again

/** Reads the live text of an execution as it is written, until the execution ends or this is no longer shown. */
export function useLiveText(of: ExecutionKey) {
  const queryKey = ["live text", of.workflow, of.id];
  return useQuery({
    queryKey,
    queryFn: async ({ signal }) => {
      let texts: LiveTexts = {};
      for await (const piece of readPieces(of, signal)) {
        texts = withPiece(texts, piece);
        queryClient.setQueryData(queryKey, texts);
      }
      return texts;
    },
    staleTime: Number.POSITIVE_INFINITY, // the stream itself brings what is new
    refetchOnMount: "always",
    refetchInterval: AGAIN_MS,
    gcTime: 0,
  });
}

async function* readPieces(of: ExecutionKey, signal: AbortSignal): AsyncGenerator<Piece> {
  const { data } = await api.GET("/api/executions/{workflow}/{id}/live-text", { ...requestOf(of), headers: { accept: "text/event-stream" }, parseAs: "stream", signal });
  const events = (data as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream() as unknown as TransformStream<Uint8Array, string>).pipeThrough(new EventSourceParserStream());
  for (const reader = events.getReader(); ; ) {
    const { done, value } = await reader.read().catch((error: unknown) => {
      throw signal.aborted ? error : unreachable(error, false);
    });
    if (done) return;
    if (value.event === "error") throw new Problem(parseExact(value.data) as ProblemDetails);
    yield parseExact(value.data) as Piece;
  }
}
