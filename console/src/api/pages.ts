// Lists that the API gives a page at a time, each with the `next` behind which the following one begins.
import { type InfiniteData, infiniteQueryOptions, useInfiniteQuery } from "@tanstack/react-query";

interface Page {
  next?: string | number | null;
}

interface Options<One> {
  enabled?: boolean;
  refetchInterval?: number | false | ((query: { state: { error: Error | null; data: InfiniteData<One> | undefined } }) => number | false);
  refetchIntervalInBackground?: boolean;
  refetchOnWindowFocus?: boolean;
  staleTime?: number;
  placeholderData?: (before: InfiniteData<One> | undefined) => InfiniteData<One> | undefined;
}

/** Under which key the pages of a list are kept. */
export function pagesKey(path: string, key: object): readonly unknown[] {
  return ["get", path, { pages: key }];
}

type Read<One, Position> = (after: Position | undefined) => Promise<{ data?: One }>;

/** How the pages of a list are read. `key` says which list it is; `read` reads the page behind a position, which is missing for the first. */
export function pagesOptions<One extends Page, Position extends string | number = string>(path: string, key: object, read: Read<One, Position>, options: Options<One> = {}) {
  return infiniteQueryOptions({
    queryKey: pagesKey(path, key),
    queryFn: async ({ pageParam }) => (await read(pageParam as Position | undefined)).data as One,
    initialPageParam: undefined as Position | undefined,
    getNextPageParam: (last) => (last.next || undefined) as Position | undefined,
    ...options,
  });
}

/** The pages of a list that were read. See `pagesOptions`. */
export function usePages<One extends Page, Position extends string | number = string>(path: string, key: object, read: Read<One, Position>, options: Options<One> = {}) {
  return useInfiniteQuery(pagesOptions(path, key, read, options));
}
