// What the page of a recording reads: the recording with its calls, a page of them at a time, for as long as calls can come.
import type { InfiniteData } from "@tanstack/react-query";
import { api, type Schemas } from "@/api/client";
import { usePages } from "@/api/pages";
import { usePollingIfThere } from "@/api/polling";

export type Recording = Schemas["RecordingDetails"];

interface RecordingPart extends Recording {
  /** The number of the last call of this part, if there are calls behind it. */
  next: number | null;
}

const PAGE_CALLS = 100;

async function readPart(id: string, after = 0): Promise<{ data: RecordingPart }> {
  const { data } = await api.GET("/api/recordings/{recording}", { params: { path: { recording: id }, query: { after, limit: PAGE_CALLS } } });
  const found = data as Recording;
  const last = found.calls.at(-1)?.number ?? after;
  return { data: { ...found, next: last < found.callsInAll ? last : null } };
}

/** Whether a recording can't change any more: nothing is added to the log of an execution that has ended, also if a call had not. */
const hasEnded = ({ pages }: InfiniteData<RecordingPart>) => pages.at(-1)?.open === false;

/** Reads a recording, and further pages of its calls when they are asked for; again and again until it has ended. */
export function useRecording(id: string) {
  const found = usePages<RecordingPart, number>("/api/recordings/{recording}", { recording: id }, (after) => readPart(id, after), usePollingIfThere(2, hasEnded));
  const latest = found.data?.pages.at(-1);
  return { ...found, recording: latest && { ...latest, calls: found.data?.pages.flatMap((part) => part.calls) ?? [] } };
}
