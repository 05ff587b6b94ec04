from perdure import Context, step, workflow


@step
def greeting(name: str) -> str:
    return f"Hello {name}"


@workflow
async def greet(ctx: Context, name: str) -> str:
    return await ctx.step(greeting, name)


print(greet.run("Ada"))  # history in ./.perdure/perdure.db; greet.with_(id="k").run("Ada") runs once, ever
