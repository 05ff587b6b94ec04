// A worker without any library: it does tasks of Perdure over HTTP, or as a child of a Perdure process, over its input and output.
//
//     perdure worker --queue thumbnails --listen 127.0.0.1:7800      node worker.mjs http://127.0.0.1:7800
//     perdure worker --queue thumbnails --exec "node worker.mjs"
//
// It takes Node.js 18 or later. PERDURE_WORKER_TOKEN has the token, if one is needed; --queues a,b, --concurrency 4 and --lease 60 say more.

import { setTimeout as sleep } from "node:timers/promises"
import { createInterface } from "node:readline"
import { hostname } from "node:os"

// What each type of task is: a function of the task. What it returns is the result; an error it throws fails the try, and with `final` it is not tried again.
// `signal` is aborted when nobody wants the answer any more, and `progress(…)` says how far it is: the next try finds that in task.progress.
const handlers = {
  async thumbnail(task) {
    const { photo, width = 200 } = task.input
    if (!/\.(jpg|png)$/.test(photo ?? "")) throw Object.assign(new Error(`${photo} is no picture`), { name: "BadPhoto", final: true })
    return { file: `${photo}.${width}.png`, key: task.key }
  },

  async count(task, { progress, signal }) {
    const { to, every_ms = 10 } = task.input
    for (let done = task.progress?.done ?? 0; done < to; ) {
      await sleep(every_ms, null, { signal })
      progress({ done: ++done })
    }
    return { counted: to, attempt: task.attempt }
  },

  async unsteady(task) {
    if (task.attempt < task.input.works_at) throw Object.assign(new Error("the line is busy"), { name: "Busy", after_s: task.input.after_s })
    return task.attempt
  },

  async judge(task) {
    return new Answer({ score: task.input.score }, task.input.score < 0.5 ? "unsure" : "sure")
  },
}

/** A result with the port by which a graph goes on. */
class Answer {
  constructor(value, port) {
    Object.assign(this, { value, port })
  }
}

/** Do one task, and return what is said in the end: `complete` or `fail`, with its body. `beat(progress)` says that it goes on; it returns whether it is wanted. */
async function perform(task, beat, signal) {
  let progress // what is to be said with the next heartbeat
  const every_ms = Math.max(200, Math.min((task.lease_s ?? 30) * 300, 15_000))
  const beating = setInterval(() => (beat(progress), (progress = undefined)), every_ms)
  const say = (how) => {
    progress = how
    if (!say.said) say.said = setTimeout(() => (beat(progress), (progress = say.said = undefined)), 100)
  }
  try {
    const handler = Object.hasOwn(handlers, task.task) ? handlers[task.task] : null
    if (!handler) throw Object.assign(new Error(`this worker does no ${task.task}`), { name: "UnknownTask", final: true })
    const result = await handler(task, { progress: say, signal })
    return ["complete", result instanceof Answer ? result : { value: result ?? null }]
  } catch (error) {
    return ["fail", { type: error.name || "Error", message: String(error.message ?? error), retry: !error.final, after_s: error.after_s ?? null }]
  } finally {
    clearInterval(beating)
    clearTimeout(say.said)
  }
}

// Over HTTP.

async function overHttp(base, { queues, concurrency, lease_s }) {
  const worker = `${hostname()}-${process.pid}`
  const headers = { "content-type": "application/json" }
  if (process.env.PERDURE_WORKER_TOKEN) headers.authorization = `Bearer ${process.env.PERDURE_WORKER_TOKEN}`
  const atWork = new Set()
  let stopping = false
  const waiting = new AbortController()
  process.on("SIGTERM", () => ((stopping = true), waiting.abort()))

  /** Ask; a request that did not get through is asked again, which is safe: whoever says the same twice is answered the same twice. */
  async function ask(path, body, { signal, tries = Infinity } = {}) {
    for (let wait_ms = 100; ; wait_ms = Math.min(wait_ms * 2, 5000)) {
      try {
        const response = await fetch(base + path, { method: "POST", headers, body: JSON.stringify(body), signal })
        if (response.status !== 503) return [response.status, await response.json()]
        await response.arrayBuffer()
      } catch (error) {
        if (signal?.aborted) throw error
      }
      if (--tries <= 0) return [0, {}]
      await sleep(wait_ms)
    }
  }

  async function work(task) {
    const over = new AbortController()
    const beat = async (progress) => {
      const [status, said] = await ask(`/v1/tasks/${task.lease}/heartbeat`, progress === undefined ? {} : { progress }, { tries: 1 })
      if (status === 409 || said.wanted === false) over.abort()
    }
    const [what, body] = await perform(task, beat, over.signal)
    if (over.signal.aborted) return console.error(`${task.key}: nobody wants it any more`)
    const [status, said] = await ask(`/v1/tasks/${task.lease}/${what}`, body)
    if (status !== 200) console.error(`${task.key}: ${said.error?.type}: ${said.error?.message}`)
  }

  while (!stopping) {
    if (atWork.size >= concurrency) {
      await Promise.race(atWork)
      continue
    }
    const wanted = { worker, limit: concurrency - atWork.size, wait_s: 30, lease_s, ...(queues && { queues }) }
    const [status, said] = await ask("/v1/tasks/lease", wanted, { signal: waiting.signal }).catch(() => [0, {}])
    if (status >= 400) throw new Error(`${said.error.type}: ${said.error.message}; ${said.error.next}`)
    for (const task of said.tasks ?? []) {
      const working = work(task).finally(() => atWork.delete(working))
      atWork.add(working)
    }
  }
  await Promise.all(atWork)
}

// As a child, over pipes.

async function overPipes({ concurrency }) {
  const tell = (message) => process.stdout.write(JSON.stringify(message) + "\n")
  const atWork = new Map()
  tell({ say: "ready", concurrency })
  for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
    const { say, ...said } = JSON.parse(line)
    if (say === "cancel") atWork.get(said.lease)?.abort()
    if (say !== "task") continue
    const over = new AbortController()
    atWork.set(said.lease, over)
    const beat = (progress) => tell({ say: "heartbeat", lease: said.lease, ...(progress !== undefined && { progress }) })
    perform(said, beat, over.signal).then(([what, body]) => {
      atWork.delete(said.lease)
      tell({ say: what, lease: said.lease, ...body })
    })
  }
}

const [base, options] = [process.argv[2]?.startsWith("http") ? process.argv[2].replace(/\/$/, "") : null, { concurrency: 4, lease_s: 60 }]
for (let at = base ? 3 : 2; at < process.argv.length; at += 2) {
  const value = process.argv[at + 1]
  if (process.argv[at] === "--queues") options.queues = value.split(",")
  if (process.argv[at] === "--concurrency") options.concurrency = Number(value)
  if (process.argv[at] === "--lease") options.lease_s = Number(value)
}
await (base ? overHttp(base, options) : overPipes(options))
