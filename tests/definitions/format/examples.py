"""Definitions that the tests of the format share: one for each way of ordering steps, and all that stands in them."""

SIGNUP = """\
perdure: 1                                 # 000: references make the graph; when; return; each
name: signup
input: {email: {type: string, default: ""}, contacts: {type: array, default: []}}
steps:
  - id: validate
    ts: |
      export default function (input: {email: string}) {
        const ok = !!input.email
        return {ok, error: ok ? null : "Email required"}
      }
    with: {email: "@input.email"}
  - {id: exit_if_invalid, when: {ref: "@validate.ok", eq: false}, return: {error: "@validate.error"}}
  - {id: create_user, when: {ref: "@validate.ok"}, tool: CREATE_USER, with: {email: "@input.email"}}
  - id: invite
    when: {ref: "@validate.ok"}
    each: {in: "@input.contacts", concurrency: 5}
    tool: SEND_EMAIL
    with: {to: "@item.email", from: "@create_user.id", nth: "@index"}
output: {user: "@create_user.id", invited: "@invite"}
"""

RELEASE = """\
perdure: 1                                 # 001: nested, top to bottom; triggers; approval; subworkflow
name: nightly-release
version: 1.2.0
vars: {branch: main}
triggers:                                  # never "on": YAML 1.1 reads that key as true
  - schedule: {cron: "30 2 * * 1-5", timezone: Europe/London, catch_up: 1, overlap: skip}
  - webhook: {path: release, verify: {scheme: github, secret: "@secrets.HOOK"}, map: {branch: $.ref}}
limits: {max_steps: 50, deadline: 4h}
allow: {self_edit: true}
order: listed
steps:
  - {id: test, bash: {command: "pytest -q --json-report", check: false}, env: {BRANCH: "@vars.branch"}, timeout: 10m}
  - id: gate
    if: {ref: "@test.exit_code", eq: 0}
    then:
      - id: images
        parallel:
          - {id: amd64, bash: "make image ARCH=amd64"}
          - {id: arm64, bash: "make image ARCH=arm64"}
      - {id: sign_off, approve: {title: "Release @{vars.branch}?", form: {channel: {enum: [beta, stable]}}, timeout: 24h, on_timeout: reject}}
      - {id: smoke, tool: HEALTH_CHECK, with: {channel: "@sign_off.form.channel"}, repeat: {until: {ref: "@self.healthy"}, max: 10, delay: 30s}}
      - {id: publish, call: publish-release@^2, with: {channel: "@sign_off.form.channel"}}
    else:
      - {id: triage, agent: {prompt: "Find why this failed: @{test.stdout}", tools: [CREATE_ISSUE]}}
"""

TRIAGE = """\
perdure: 1                                 # 003: ports; envelope; batches
name: support-triage
order: ports
steps:
  - {id: classify, llm: {model: small, prompt: "Classify: @{input.text}", schema: {label: {enum: [bug, question]}, confidence: {type: number}}}, next: sure}
  - {id: sure, test: {all: [{ref: "@classify.confidence", gte: 0.8}, {ref: "@steps.classify.output.meta.finish", eq: stop}]}, next: {"true": replies, "false": human}}
  - {id: human, approve: {title: "Label for @{input.id}", assignees: [support], form: {label: {type: string}}}, next: {approved: replies, rejected: close}}
  - {id: replies, each: {in: "@input.messages", batch: 2}, tool: REPLY, with: {messages: "@loop.batch.items", label: "@classify.label"}, next: close}
  - {id: close, tool: CLOSE_TICKET, with: {id: "@input.id", last: "@last"}}
"""

PAYMENT = """\
perdure: 1                                 # 004: loop and branch as configuration; composite conditions; agent routing; undo; join
name: payment
order: ports
limits: {max_hops: 100, deadline: 30m}
steps:
  - {id: calculate_total, tool: TOTAL, next: call_payment_api}
  - id: call_payment_api
    tool: CHARGE
    with: {amount: "@calculate_total.final_amount"}
    repeat:
      while: {all: [{ref: "@self.status", neq: success}, {ref: "@self.error_code", in: [TIMEOUT, RATE_LIMIT, TEMP_ERROR]},
                    {ref: "@self.amount", eq: "@calculate_total.final_amount"}]}
      max: 5
      on_max: refund_customer
    undo: {tool: stripe.refund, with: {charge: "@self.id"}, timeout: 60s, retry: {max: 3}}
    next:
      - {when: {expr: "self.status == 'success' && self.amount >= 1000"}, to: [send_premium, update_crm]}
      - {when: {ref: "@self.status", eq: success}, to: send_standard}
      - {to: route}
  - {id: route, agent: {prompt: "Which team?"}, next: {choose: [manual_review, fraud], default: manual_review}}
  - {id: send_premium, tool: SEND, next: merge}
  - {id: update_crm, tool: CRM, next: merge}
  - {id: merge, needs: [send_premium, update_crm], tool: LOG}
  - {id: send_standard, tool: SEND}
  - {id: refund_customer, tool: REFUND}
  - {id: manual_review, approve: {title: "Check payment", assignees: [ops@company.com], timeout: 48h, on_timeout: approve}, next: {approved: send_standard, rejected: refund_customer}}
  - {id: fraud, tool: FRAUD}
"""

EXAMPLES = {"signup": SIGNUP, "release": RELEASE, "triage": TRIAGE, "payment": PAYMENT}
