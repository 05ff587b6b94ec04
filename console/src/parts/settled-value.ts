// A value that changes often, as it is when it has stayed the same for a while.
import { useEffect, useState } from "react";

/** Returns `value` once it has stayed the same for `afterMs`. */
export function useSettledValue<T>(value: T, afterMs: number): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), afterMs);
    return () => clearTimeout(timer);
  }, [value, afterMs]);
  return settled;
}
