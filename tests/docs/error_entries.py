"""Why each error comes about, and what to do about it: what the reference of errors says beside the docstrings."""

ENTRIES: dict[str, tuple[str, str]] = {
    "SealedPayload": (
        (
            "Something is encrypted with a key that is not known here, was changed since it was written, or is plain where only encrypted payloads are taken; "
            "or a codec of your own has failed."
        ),
        "Put the key that the message names into `PERDURE_ENCRYPTION_KEYS`, or mend the codec. Nothing was changed; what waits goes on once that is done.",
    ),
    "MissingSecret": (
        "A step reads a secret that was set nowhere: not by the definition, in the environment, in a file, or in the store.",
        "Set it, as the message says, and retry the execution: it goes on with the step. `perdure secret check` says beforehand what is missing.",
    ),
    "SealedSecret": (
        "A secret in the store is encrypted with a key that this process does not have, or was changed since it was stored.",
        "Put the key that the message names into `PERDURE_SECRETS_KEY`, or set the secret anew; then retry the execution.",
    ),
    "PerdureError": (
        "The root of the tree; never raised as itself.",
        "Catch it to catch whatever Perdure raises. `Fatal`, `Rollback` and `RetryAfter` are yours, and not below it.",
    ),
    "ProgrammingError": (
        "The root of mistakes of code and calls; nothing was changed.",
        "Mend the code or the call. Trying again changes nothing, so a step that raises one has failed for good.",
    ),
    "Unencodable": (
        "An argument, a result, a message or a value holds something that is no data: a connection, a lock, a lambda.",
        "Pass data, or where the thing is to be found; open what a step needs in the step.",
    ),
    "Undecodable": (
        "A type hint has changed under what was kept, or the data never fitted it.",
        "Give new fields a default, or take the hint back. What was kept is untouched.",
    ),
    "TooLarge": ("A value takes more than 16 MiB.", "Keep it in a file or a bucket, and pass its name."),
    "LossyValue": (
        "A value of a class below the hinted one was passed, returned or sent; it would arrive as the hinted one, with less.",
        "Hint at the class itself, at a union of tagged Structs, or at Any. A step whose result is refused has failed for good, and may have done its work.",
    ),
    "UnsupportedType": (
        "A type hint can't be decoded: a union of dataclasses, a dataclass with `InitVar`, a class without an encoding, a model with a secret.",
        "Hint at a type that can, or at Any. Nothing was run.",
    ),
    "Unstorable": (
        "The code asked for an operation that the log can't hold: an id, a name or an option is not of its type, or is text without an encoding.",
        "Mend the code that makes it, and resume the execution. Nothing new was run.",
    ),
    "BadName": (
        "A name is empty, too long, no text, or is taken; or a step is undone by two functions.",
        "Choose a name of 1 to 1024 bytes; for an attribute, a word of up to 64 characters.",
    ),
    "BadValue": (
        "An argument makes no sense, does not fit the workflow, or contradicts another; or a `connection=` has no open transaction on the client's database.",
        "The message says what was expected. It is a `ValueError` as well.",
    ),
    "DuplicateName": (
        "One explicit name was given to two operations of one scope.",
        'Give each its own, such as `f"charge {item}"`, or leave them unnamed: repeats are numbered.',
    ),
    "WrongVerb": (
        (
            "A verb was used as replay could not repeat it: on the context of another branch, in a step; or a workflow was called as a function; "
            "or a step has ended its transaction by hand, gone on after it had failed, or changed Perdure's own tables in it; "
            "or what begins with your commit was to be waited for before it."
        ),
        "The message names the verb to use, or what to do instead.",
    ),
    "NotDeterministic": (
        "A workflow used a clock, a thread, a socket, a file or a process by way of asyncio.",
        "Do it in a step, or use `ctx.sleep`, `ctx.now`, `ctx.random`. `perdure lint` finds most of these beforehand.",
    ),
    "NotAwaited": ("A verb was called, and its result thrown away.", "Write `await` before it."),
    "UnknownWorkflow": ("This engine does not have that workflow in that version.", "Start an engine with the code that has it. What was started waits."),
    "MissingCapabilities": (
        "A step of the definition uses a tool, a kind or a definition that was not given where it is run.",
        "Give it: `Definition.of(..., tools=, calls=, kinds=)`, or `--tools` and `--calls`.",
    ),
    "NotFound": (
        "No execution, or no approval, has that id in that workflow and tenant.",
        "Look for it with `perdure ls`; start it before it is sent to, or send with `may_come=True`.",
    ),
    "Ambiguous": ("An id, or the beginning of one, fits several executions.", "Say which by `workflow/id`; `candidates` has the newest."),
    "InputDiffers": (
        "A start with `strict=True` met an execution of the same id with another input or definition, or one of many executions an id whose order is another.",
        "Choose another id, or drop `strict` to be given the first.",
    ),
    "TooManyActive": (
        "A start carried an admission, and as many executions as it allows have the same value of an attribute and have not ended.",
        "Start it again when one of them has ended, or cancel one.",
    ),
    "AlreadyExists": ("`rerun` or `fork` was given an id that is taken, or a new definition a slug that is.", "Choose another, or none."),
    "StaleRecord": (
        "Two changed one record of the service, such as a definition of the catalog, and the other was first.",
        "Read it again, and repeat the change if it still makes sense.",
    ),
    "IdempotencyKeyReused": (
        "Two requests with the same `Idempotency-Key` differ in their body, path or query.",
        "Give each request a key of its own, such as a UUID, and repeat a request with exactly the same body.",
    ),
    "RequestUnderWay": (
        "A request is repeated while the first one with its `Idempotency-Key` is being performed, here or in another process.",
        "Send it again after the time in `Retry-After`. `Client` does so by itself.",
    ),
    "AnswerUnknown": (
        "A server died between the effect of a request and its answer, the answer was too large to keep, or it held a secret, which is shown once.",
        "Read what was to be changed: it was, once. With a new key the request is performed again.",
    ),
    "DefinitionDisabled": ("A definition of the catalog was to be started, and it is disabled.", "Enable it, and start it again."),
    "DefinitionOwned": (
        "A definition of the catalog was to be changed, and it is kept in a file that `perdure serve --watch` or `perdure dev` watches.",
        "Change the file. Or release the definition from it (`perdure workflow release`), if the file is watched no more.",
    ),
    "ProposalRefused": (
        "A proposal was to be made for a definition that allows none, or one was to be reviewed or applied that is not pending, not approved, or has expired.",
        "Read the proposal and the current version (`perdure proposal show`): the message says which it is. Make another proposal where this one is over.",
    ),
    "StaleProposal": (
        "The definition has another version than the one that the proposal is based on: it was changed before the proposal was made, or before it was applied.",
        "Read the current version, and propose the change of that. A proposal that was to be applied has failed; one that was to be made is not stored.",
    ),
    "NoPromptHandler": (
        "A schedule was to hand its prompt to the application, and no living engine has a handler for prompts.",
        "Register one with `@app.on_prompt`, run the App, and make the schedule then; or have it start a workflow.",
    ),
    "TriggerOwned": (
        "A trigger was to be changed or deleted, and a definition or code declares it.",
        "Change it there: publish a version of the definition without it, or with another one of its name. Pausing and disabling it works anywhere.",
    ),
    "Removed": (
        "The execution ended long ago, and `perdure prune` has removed what it did; its id, status, times and the hash of its result are kept.",
        "Look into the archive, if one was written. To do the work again, start another under another id.",
    ),
    "BadDefinition": (
        "A definition can't be read or is not valid, or a change would leave one that is not.",
        "Each of `findings` says where, what and what to do, with a code, a JSON pointer, line and column, and a fix where one is safe. Nothing was changed.",
    ),
    "BadExpression": (
        "A reference, a template or a condition of a definition can't be read, or asks for what expressions don't do.",
        "`what` says what is wrong, with the character at which it is; `hint` says what to write instead. Nothing was run.",
    ),
    "ExpressionFailed": (
        "What an expression refers to is not there, or is of another kind than it takes: text compared with a number, a division by zero, a missing key.",
        "Mend the step that made the value; or write `@a.b?` for null where something may be missing, or ask with `exists` first.",
    ),
    "MissingExtra": (
        "Something was used that takes a library which is installed only when asked for.",
        "Install what the message says, where the engine runs.",
    ),
    "SourceFailed": (
        "Source text in a sandbox can't be read, has raised an error, or has returned what JSON has no word for. It would again, so it is not tried again.",
        "`type` and `text` are those of its own error, `line` and `column` where it was raised, `console` what it has printed. Mend the source.",
    ),
    "SandboxLimit": (
        "Source text in a sandbox took more than there is for it; see `OutOfTime`, `OutOfMemory` and `OutputTooLarge`.",
        "Give it less at a time, with `each` and `batch`.",
    ),
    "OutOfTime": (
        "Source text in a sandbox did not end within its time, by the clock on the wall: 10 s, or the step's `timeout`, up to 60 s.",
        "Have it do less, or give its step a longer `timeout`. `console` is what it has printed, where that is known.",
    ),
    "OutOfMemory": (
        "Source text in a sandbox took more memory than it has: 64 MB.",
        "Give it less at a time, with `each` and `batch`, and only what it needs, in `with`.",
    ),
    "OutputTooLarge": (
        "Source text in a sandbox returned more than it may: 16 MiB of JSON.",
        "Return less, or store it elsewhere and return where it is.",
    ),
    "KindFailed": (
        "A kind of steps of a package or of your own has `check`, `written`, `idempotent` or `counts`, and that raised an error or returned something else.",
        "Mend the kind. The step has failed for good without having begun; retry the execution once an engine with the mended kind runs.",
    ),
    "SandboxFailed": (
        "A sandbox, or the process that keeps shell commands, failed by itself while it did a step's work: it crashed, or met what it does not expect.",
        "`why` says how, `said` has the end of its error output. It would fail again, so it is not tried again. Change the source, and report it.",
    ),
    "SandboxLost": (
        "There was no sandbox: all were busy for a minute, it could not begin, or it was ended from outside, as by a system that lacks memory.",
        "Nothing: it is tried again as the step says. If it goes on, look at the machine's memory, or have fewer steps run at once.",
    ),
    "NotAllowed": (
        "A step reaches out of the process in a way that is off until it is allowed, such as a shell command.",
        "Whoever runs the engine allows it, as the message says, or the definition goes another way. Nothing was done.",
    ),
    "CommandRefused": (
        "A shell command could not be started: there is no bash, no working directory, no such `cwd`, no isolation here, or what it is given is too large.",
        "The message says which, and what to do. Nothing was run.",
    ),
    "CommandFailed": (
        "A shell command ended with another exit code than 0, or by a signal, and its step does not say `check: false`.",
        "Look at what it says. It is tried again only where the definition says `retry`; with `check: false` the exit code is a result.",
    ),
    "CommandLost": (
        "The process that kept a shell command was killed from outside, for lack of memory for instance, and the command with it.",
        "See what it has done. It is tried again as `retry` says.",
    ),
    "ExportRefused": (
        "A file of exported executions is damaged, not signed with the secret that is asked for, or can't be taken into this database.",
        "The message says which, and what to do: export again, give the right `PERDURE_SIGNING_SECRET`, or another `--id`.",
    ),
    "PatchRefused": (
        "A live execution can't go on by that definition: something has begun that would be changed, or somebody else has patched it meanwhile.",
        "`why` has the reasons. Change what has not begun, add steps behind what has, or fork the execution; it goes on as before.",
    ),
    "MoveRefused": (
        "The database was moved already, the target is in use or has something of its own, its clock is ahead, or another command moves the same.",
        "Nothing was changed. Copy into an empty database; what was moved already goes on where the message says.",
    ),
    "HasEnded": (
        "The execution or the approval has ended, so what was asked would have no effect.",
        "`status` says how it ended. Rerun, fork or start another; only what has failed is retried.",
    ),
    "MessageRejected": (
        "The validator of a signal, or of the `ctx.listen` that received the message, has raised an error or returned False.",
        "`error` says why. Send another message; the workflow has not received this one.",
    ),
    "CompletionRefused": (
        "A token was used for an attempt that is not wanted any more: it has timed out, its branch was cancelled, or the execution is being cancelled.",
        "Stop the work. If there is another attempt, it has a token of its own.",
    ),
    "AlreadyCompleted": (
        "A token was used twice, by two systems or by one that did not receive the answer.",
        "Nothing needs to be done: the first completion counts.",
    ),
    "AlreadyDecided": (
        "A person decided on an approval that was decided before; a link was used twice, or two people answered.",
        "`by`, `approved` and `at_s` have the decision that counts. If it has to be decided anew, start another execution.",
    ),
    "DecisionRefused": (
        "Who decided is not among those who may, or has decided already.",
        "`why` says which. Decide as somebody else, or with the groups they are in.",
    ),
    "LinkRefused": (
        "A link was changed, cut short, signed with another secret, or is too old.",
        "Make another with `approval_link`, with the same `PERDURE_SIGNING_SECRET` on both sides.",
    ),
    "Unauthenticated": (
        "A request to a service has no key, token or session, or one that is unknown, has expired or was revoked.",
        "Send `Authorization: Bearer` with a key that `perdure keys create` has made, or sign in again. The message says what is wrong.",
    ),
    "Forbidden": (
        "The caller is known, and has no role that allows this.",
        "`role` is the one that is needed. Ask an admin of the tenant for a key that has it, or for a group that is given it.",
    ),
    "IssuerUnavailable": (
        "The OIDC issuer could not be reached, and its keys are not known here or are older than a day.",
        "Nothing was done; repeat the request. If it lasts, check the address of the issuer and the way to it from the service.",
    ),
    "Diverged": (
        "The code asks for another operation than its execution remembers: a verb was added, removed, renamed or moved.",
        "Take the change back, or put a gate before it ([Changing code](../guides/versions.md)), then `resume`; or fork it onto the new code.",
    ),
    "NotReplayable": (
        "The log of an execution of a definition does not replay over that definition: a defect of Perdure, or a log that was changed.",
        "`perdure events` shows what has happened; `perdure export` makes a file to report it with.",
    ),
    "StoreError": (
        "The database can't be opened, is another program's, or is of a newer Perdure.",
        "The message says which; `perdure doctor` looks further. What was acknowledged is safe.",
    ),
    "StoreDamaged": (
        "The disk or another program changed the file; or a file was copied over it while its write-ahead log (`-wal`) stayed.",
        "Put a backup in its place: `perdure db restore FILE --replace`. Engines and workers have stopped by themselves; begin them again afterwards.",
    ),
    "StoreUnusable": (
        "The store is damaged, or was moved: the error is one of the classes below.",
        "The message says what to do. Engines and workers have stopped by themselves; begin them again afterwards.",
    ),
    "StoreMoved": (
        "`perdure db copy` moves the database, has moved it, or has made it as a copy that is not in use yet. It can be read, and refuses changes.",
        "The message names the database to use: give that one with `--db` or `PERDURE_DB`. Engines and workers have stopped by themselves; begin them there.",
    ),
    "StoreUnavailable": (
        "The database did not answer: locked for too long, the disk full, the file gone, the server not there, a connection lost.",
        "Ask again: starts with an `id` and messages with a `key` count once. Engines try by themselves.",
    ),
    "LogVersionUnsupported": (
        "A newer Perdure wrote it, or a development version from before the first release.",
        "Use one at least as new as the one that wrote it; after a development version, begin with a new database.",
    ),
    "LogDamaged": (
        "The file was damaged from outside: a checksum, or the SHA-256 of a blob, says so.",
        "`perdure verify` names the executions; restore a backup.",
    ),
    "WorkflowError": ("The root of what comes of the work itself.", "Catch it in a workflow to deal with any failure of a step, a child or a branch."),
    "StepFailed": (
        "A step has used up its attempts, was `Fatal`, or was interrupted and is not idempotent. `kind` says which.",
        "Catch it, or use `ctx.attempt`. Uncaught, it fails the execution, which is retried once the cause is mended.",
    ),
    "ChildFailed": (
        "A child failed or was cancelled; `kind` says which, and `error` what with.",
        "Catch it, use `ctx.attempt`, or have it started anew with `with_(retry=…)`.",
    ),
    "TooDeep": ("More than 100 executions stand one above the other.", "End the recursion, or use `ctx.loop`."),
    "Timeout": (
        "Nothing came within the time that a verb or a call of a client was given. It is a `TimeoutError` as well.",
        "In a workflow: catch it, or give `default=`. From a client: ask again; what was waited for goes on.",
    ),
    "JoinFailed": (
        "Branches of a join or a map failed. It is an `ExceptionGroup` as well.",
        "`errors` has the error of each branch by name, `outputs` what the others returned; `except*` takes it apart.",
    ),
    "RaceFailed": ("Every branch of a race failed. It is an `ExceptionGroup` as well.", "`errors` has the error of each branch by name."),
    "ExecutionFailed": ("An error was not caught in the workflow.", "`error` has its type, message and traceback. Mend the cause, and `retry`."),
    "DeadlineExceeded": (
        "The execution had not ended when its deadline was over; what it had done was undone.",
        "Give it more time, or find out with `perdure logs` what took so long.",
    ),
    "ExecutionCancelled": (
        "Somebody cancelled or terminated it, it was superseded, or its time to begin was over. `reason` says.",
        "Start or rerun it, if it is wanted after all.",
    ),
    "NoReply": (
        "The execution ended, or refused the message, before it was completed.",
        "Look at how it ended; a workflow that is asked must call `message.complete(reply)`.",
    ),
    "BadAnswer": (
        "A model's answer does not fit the schema, is empty, was cut off or withheld, also after it was told what is wrong.",
        "Look at its answers in the steps called *model*; ask for less, allow more `repairs`, or fork the agent from there with another model.",
    ),
    "Unauthorized": (
        "An agent asked again and again for tools that it was not given, or chose a next step that is not in its list, also after it was told.",
        "Give it that tool or that way if it should have it; else say in its instructions what there is.",
    ),
    "NeedsAttention": (
        "It is parked: its code *diverged*, a step was *interrupted* too often, or something could not be undone (*undo*). A script hears of *paused*, too.",
        "[Mending](../guides/repair.md) has what to do for each reason.",
    ),
    "RetryAfter": (
        "Yours to raise in a step: the server has said when to come again.",
        "Nothing: the step is attempted again then, as long as it has attempts left.",
    ),
    "Fatal": ("Yours to raise in a step: trying again would be useless.", "Catch `StepFailed` with the kind *fatal* in the workflow, or let it fail."),
    "Rollback": (
        "Yours to raise in a workflow or a step: what was done is to be undone.",
        "It fails the execution, and [undoes](../guides/undo.md) its steps.",
    ),
    "Evicted": (
        "The execution leaves memory, and its coroutines are unwound. It is no error.",
        "Let it through: catch `Exception`, not `BaseException`; nothing can be awaited in `finally` then.",
    ),
}

RECORDED: dict[str, str] = {
    "interrupted": "See what the attempt had done, then retry the execution. Declare the step idempotent if it may run twice.",
    "abandoned": "Nothing, unless the step has effects outside: `undo(in_doubt=True)` also undoes those of an abandoned attempt.",
    "cancelled": "Start or rerun the execution if its work is wanted after all.",
    "expired": "Start the execution again, with a later expiry, and see that an engine runs.",
    "rejected": "Nothing: a person decided so. Start another execution to ask again.",
    "outcome_unknown": "Read the log of the execution itself, or its archive.",
    "endless_decision": "Let each turn of the loop wait for a step, a message or time.",
    "wrong_store": "Use SQLite or Postgres, or declare the step without `transaction=True`.",
    "unknown_step": "Start a worker with the code that has the step.",
    "unknown_kind": "Install the package of the kind where the engine runs, and retry the execution.",
    "unknown_port": "Add the port to the transitions of the node, with [] if nothing follows.",
    "unknown_version": "Give the engine that version of the called definition, or call one that it has.",
    "bad_input": "Start another execution with an input that fits `input` of the definition.",
    "bad_result": "Correct the tool or the schema of the node, and retry the execution.",
    "secrets_unavailable": "Use the secret in a tool or an HTTP request, which may have secrets.",
    "not_approved": "Nothing: a person decided so. Change the policy if it should not ask.",
    "too_few_succeeded": "Look at the errors of the items that failed; retry the execution, or lower `enough`.",
    "repeat_exhausted": "Allow more iterations, or correct the condition.",
    "loop_exhausted": "Raise `max`, or make the batches larger.",
    "failed": "Read the message, which the definition states.",
    "agent_failed": "Look at the execution of the agent, which the message names.",
    "answer_refused": "Change the prompt, or use another model.",
    "unsafe_loop": "Add a wait, or a step that waits, to the circle.",
    "exceeded_max_steps": "Raise `max_steps` under `limits` of the definition, or end the loop earlier.",
    "exceeded_max_fanout": "Raise `max_fanout` under `limits` of the definition, or pass fewer items.",
    "exceeded_max_hops": "Raise `max_hops` under `limits` of the definition, or end the loop earlier.",
    "exceeded_max_bytes": "Raise `max_bytes` under `limits` of the definition, or keep large values elsewhere.",
    "exceeded_calls": "Fork the agent with a larger budget of calls.",
    "exceeded_tokens": "Fork the agent with a larger budget of tokens.",
    "exceeded_cost": "Fork the agent with a larger budget, or give its model a price.",
    "task_failed": "Read the message, which the program states.",
    "program_failed": "Read the end of the standard error of the program, which the message has.",
    "program_not_started": "Check the command of the worker, and that the program can be executed.",
}
"""What to do about each failure that is recorded without an exception of Perdure."""
