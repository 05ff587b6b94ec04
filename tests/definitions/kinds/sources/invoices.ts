// A program as people write them: parses a CSV of invoices, checks it, groups it, and writes a report in Markdown.
type Row = Record<string, string>

interface Invoice {
  readonly id: string
  customer: string
  net: number
  vat: Vat
  paid?: boolean
}

enum Vat {
  Zero = 0,
  Reduced = 7,
  Full = 19,
}

enum Problem {
  BadNumber = "a number that is none",
  BadVat = "a rate of VAT that is none",
  NoCustomer = "no customer",
}

class Refused extends Error {
  constructor(
    public readonly line: number,
    public readonly problem: Problem,
  ) {
    super(`line ${line}: ${problem}`)
    this.name = "Refused"
  }
}

abstract class Parser<T> {
  protected at = 0
  constructor(protected readonly text: string) {}
  abstract parse(): T
  protected get isOver(): boolean {
    return this.at >= this.text.length
  }
}

class Csv extends Parser<Row[]> {
  parse(): Row[] {
    const lines: string[][] = []
    while (!this.isOver) lines.push(this.line())
    const [names = [], ...rest] = lines
    return rest.map((cells) => Object.fromEntries(names.map((name, n) => [name.trim(), cells[n] ?? ""])) as Row)
  }

  private line(): string[] {
    const cells: string[] = []
    for (;;) {
      cells.push(this.text[this.at] === '"' ? this.quoted() : this.plain())
      if (this.text[this.at++] !== ",") return cells
    }
  }

  private plain(): string {
    let cell = ""
    while (!this.isOver && !",\n".includes(this.text[this.at]!)) cell += this.text[this.at++]
    return cell
  }

  private quoted(): string {
    let cell = ""
    for (this.at++; !this.isOver; this.at++) {
      if (this.text[this.at] === '"') {
        if (this.text[this.at + 1] !== '"') break
        this.at++
      }
      cell += this.text[this.at]
    }
    this.at++
    return cell
  }
}

const isVat = (rate: number): rate is Vat => rate in Vat

function invoice(row: Row, line: number): Invoice {
  const {id = "", customer, net, vat, ...others} = row
  if (!customer) throw new Refused(line, Problem.NoCustomer)
  const amount = Number(net), rate = Number(vat)
  if (Number.isNaN(amount)) throw new Refused(line, Problem.BadNumber)
  if (!isVat(rate)) throw new Refused(line, Problem.BadVat)
  return {id, customer, net: amount, vat: rate, ...(others.paid === "yes" ? {paid: true} : {})} satisfies Invoice
}

function* numbered<T>(items: Iterable<T>, from = 1): Generator<[number, T]> {
  for (const item of items) yield [from++, item]
}

const gross = ({net, vat}: Pick<Invoice, "net" | "vat">): number => Math.round(net * (100 + vat)) / 100

function grouped<K extends string, T>(items: readonly T[], key: (item: T) => K): Map<K, T[]> {
  const found = new Map<K, T[]>()
  for (const item of items) (found.get(key(item)) ?? found.set(key(item), []).get(key(item))!).push(item)
  return found
}

function report(invoices: Invoice[]): string {
  let text = "| customer | invoices | gross |\n|---|---|---|\n"
  for (const [customer, own] of [...grouped(invoices, (one) => one.customer)].sort(([a], [b]) => (a < b ? -1 : 1))) {
    text += `| ${customer.replace(/\|/g, "\\|")} | ${own.map((one) => one.id).join(", ")} | ${own.reduce((sum, one) => sum + gross(one), 0).toFixed(2)} |\n`
  }
  return text
}

export default async function main(input: {csv: string}): Promise<{report: string; refused: string[]; open: number}> {
  const invoices: Invoice[] = [], refused: string[] = []
  for (const [line, row] of numbered(new Csv(input.csv).parse(), 2)) {
    try {
      invoices.push(invoice(row, line))
    } catch (error: unknown) {
      if (!(error instanceof Refused)) throw error
      refused.push(error.message)
    }
  }
  await Promise.all(invoices.map(async (one) => one))
  return {report: report(invoices), refused, open: invoices.filter((one) => !one.paid).length}
}
