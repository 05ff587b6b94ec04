// What host.js needs when something is printed or goes wrong. `kept` has what that has taken of the language before the source ran.
(function (kept) {
  "use strict";
  const {stringify, apply, slice, toWellFormed, text, Failure, Map, Set} = kept;
  // By a margin more than is kept: see saying.py.
  const PRINTED_MAX = 65536 + 4096, SAID_MAX = 4000 + 4096;
  const cut = (said, length) => apply(slice, text(said), [0, length]);
  const whole = (said) => apply(toWellFormed, said, []);
  let printed = "", isFull = false;

  class Unfit { constructor(said) { this.said = said; } }

  const called = (value) => {
    switch (typeof value) {
      case "bigint": return "a BigInt; make it a number or text";
      case "number": return text(value);
      case "object": break;
      default: return `a ${typeof value}`;
    }
    if (value instanceof Map) return "a Map; use Object.fromEntries";
    return value instanceof Set ? "a Set; use an array" : "a promise; await it";
  };

  const shown = (value) => {
    switch (typeof value) {
      case "object":
        if (value === null) return "null";
        if (value instanceof Failure) return text(value);
        return text(stringify(value, (_, inner) => (typeof inner === "bigint" ? text(inner) : inner)));
      case "function": return `[function ${value.name}]`;
      case "bigint": return `${value}n`;
      default: return text(value);
    }
  };
  const safely = (value) => { try { return shown(value); } catch { return "[something that can't be shown]"; } };

  const described = (error) => {
    try {
      if (error instanceof Unfit) return {type: "", text: error.said, stack: ""};
      if (error instanceof Failure) return {type: cut(error.name, SAID_MAX), text: cut(error.message, SAID_MAX), stack: cut(error.stack, SAID_MAX)};
      return {type: "", text: cut(safely(error), SAID_MAX), stack: ""};
    } catch { return {type: "", text: "an error that can't be shown", stack: ""}; }
  };

  return {
    unfit(key, value) { throw new Unfit(`${key === "" ? "the result is" : `the result has, as ${stringify(key)},`} ${called(value)}`); },
    missing() { throw new Unfit("it exports no function; write: export default function (input) { … }"); },
    required(name) {
      throw new Failure(`there are no modules in a sandbox, so ${stringify(text(name))} can't be imported; write what is needed into the source`);
    },
    told(error) {
      const {type, text, stack} = described(error);
      return stringify({type: whole(type), text: whole(text), stack: whole(stack)});
    },
    print(values) {
      if (isFull) return;
      for (let at = 0; at < values.length; at++) printed += (at ? " " : "") + safely(values[at]);
      printed += "\n";
      if (printed.length <= PRINTED_MAX) return;
      isFull = true;
      printed = cut(printed, PRINTED_MAX);
    },
    printed() { return stringify(whole(printed)); },
  };
})
