// What stands around a source in its context: it runs the source, keeps what it prints, and makes text of what it comes to. It is evaluated before the
// source is, and takes all that it needs then: whatever the source changes of the language, it changes for itself alone.
(function () {
  "use strict";
  const {parse, stringify} = JSON;
  const {toWellFormed, slice} = String.prototype;
  const {apply} = Reflect;
  const [text, Failure, Plain, Collection, Set_, Pending] = [String, Error, Object, Map, Set, Promise];
  const PRINTED_MAX = 65536, SAID_MAX = 4000, TRACE_MAX = 4000;
  let printed = "", isFull = false, outcome = "";

  // What JSON has no word for, and would leave out or turn into something else without saying so.
  const plain = (key, value) => {
    switch (typeof value) {
      case "function": return unfit(key, "a function");
      case "symbol": return unfit(key, "a symbol");
      case "bigint": return unfit(key, "a BigInt; make it a number or text");
      case "number": return value - value === 0 ? value : unfit(key, text(value));
      case "object":
        if (value instanceof Collection) return unfit(key, "a Map; use Object.fromEntries");
        if (value instanceof Set_) return unfit(key, "a Set; use an array");
        if (value instanceof Pending) return unfit(key, "a promise; await it");
    }
    return value;
  };
  const unfit = (key, what) => {
    throw new Unfit(`${key === "" ? "the result is" : `the result has, as ${stringify(key)},`} ${what}`);
  };
  class Unfit { constructor(said) { this.said = said; } }

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

  const print = (...values) => {
    if (isFull) return;
    for (let at = 0; at < values.length; at++) printed += (at ? " " : "") + safely(values[at]);
    printed += "\n";
    if (printed.length <= PRINTED_MAX) return;
    isFull = true;
    printed = apply(slice, printed, [0, PRINTED_MAX]) + "\n… more was printed, and is not kept\n";
  };
  globalThis.console = {log: print, info: print, warn: print, error: print, debug: print};

  const told = (error) => {
    const told = {type: "", text: "", stack: ""};
    try {
      if (error instanceof Unfit) told.text = error.said;
      else if (error instanceof Failure) {
        told.stack = apply(slice, text(error.stack), [0, TRACE_MAX]);
        told.type = apply(slice, text(error.name), [0, 100]);
        told.text = apply(slice, text(error.message), [0, SAID_MAX]);
      } else told.text = apply(slice, safely(error), [0, SAID_MAX]);
    } catch { told.text = "an error that can't be shown"; }
    return told;
  };
  const well = (told) => { for (const name in told) told[name] = apply(toWellFormed, told[name], []); return told; };

  const required = (name) => {
    throw new Failure(`there are no modules in a sandbox, so ${stringify(text(name))} can't be imported; write what is needed into the source`);
  };
  const settled = async (load, input) => {
    const exports = {}, module = {exports};
    load(module, exports, required);
    const main = exports.default;
    if (typeof main !== "function") throw new Unfit("it exports no function; write: export default function (input) { … }");
    return await main(input);
  };

  const begin = (load, input, lengthMax) => {
    (async () => {
      let isReturned = false;
      try {
        const value = await settled(load, parse(input));
        isReturned = true;
        const made = stringify(value, plain);
        outcome = made === undefined ? "=null" : made.length > lengthMax ? ">" : `=${made}`;
      } catch (error) {
        // Where there is no memory for an error, null is thrown; a source may throw that as well.
        outcome = error === null ? (isReturned ? "m" : "0") : `!${stringify(well(told(error)))}`;
      }
    })();
  };
  // What it is asked: to begin; what it has come to ("" until then, "=" and JSON, ">" if
  // that is too long, "!" and an error, "m" if there was no memory for it, "0" if null was thrown); what
  // was printed, as JSON.
  return (what, load, input, lengthMax) => {
    switch (what) {
      case "begin": return begin(load, input, lengthMax);
      case "outcome": return outcome;
      case "printed": return stringify(apply(toWellFormed, printed, []));
    }
  };
})()
