// What stands around a source in its context: it runs the source, and makes JSON of what that comes to. It is evaluated before the source is, and takes all
// that it needs then: whatever the source changes of the language, it changes for itself alone. It is read anew for each call, so it is short: what is rarely
// needed is in telling.js, whose text is given as `rest`, and read when something is printed or goes wrong.
(function (rest) {
  "use strict";
  const {parse, stringify} = JSON, evaluate = eval, {apply} = Reflect, {slice, toWellFormed} = String.prototype;
  const kept = {stringify, apply, slice, toWellFormed, text: String, Failure: Error, Map, Set, Promise};
  let telling, outcome = "";

  // QuickJS keeps long strings that were joined as a tree, which the binding can't read. This makes one piece of it.
  const flat = (text) => apply(toWellFormed, text, []);

  const tell = () => telling ??= evaluate(rest)(kept);
  const print = (...values) => tell().print(values);
  globalThis.console = {log: print, info: print, warn: print, error: print, debug: print};

  // Lets through what JSON has a word for; the rest it would leave out, or turn into something else, without saying so.
  const plain = (key, value) => {
    const type = typeof value;
    if (type === "string" || type === "boolean" || type === "undefined" || value === null) return value;
    if (type === "number" && value - value === 0) return value;
    if (type === "object" && !(value instanceof kept.Map || value instanceof kept.Set || value instanceof kept.Promise)) return value;
    return tell().unfit(key, value);
  };

  const run = async (load, input, lengthMax) => {
    let isReturned = false;
    try {
      const exports = {}, module = {exports};
      load(module, exports, (name) => tell().required(name));
      const main = exports.default, value = typeof main === "function" ? await main(parse(input)) : tell().missing();
      isReturned = true;
      const made = stringify(value, plain);
      outcome = made === undefined ? "=null" : made.length > lengthMax ? ">" : `=${made}`;
    } catch (error) {
      // Where there is no memory for an error, null is thrown; a source may throw that as well.
      try {
        outcome = error === null ? (isReturned ? "m" : "0") : `!${tell().told(error)}`;
      } catch { outcome = "m"; }
    }
  };

  // What it is asked: to run; what it has come to ("" until then, "=" and JSON, ">" if that is too long, "!" and an error, "m" if there was no memory for it,
  // "0" if null was thrown); what was printed, as JSON.
  return (what, load, input, lengthMax) => {
    if (what === "run") run(load, input, lengthMax);
    else return flat(what === "outcome" ? outcome : telling ? telling.printed() : '""');
  };
})
