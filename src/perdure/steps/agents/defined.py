"""The agents of a definition: one workflow, whose executions do what the steps of the definition ask of agents, by the definition's own tools."""

from perdure.programs.code.declare import CodeWorkflow
from perdure.programs.graph.policy import NO_POLICY, Policy
from perdure.steps.agents.own import Around
from perdure.steps.agents.profile import Profile
from perdure.steps.agents.program import workflow
from perdure.steps.deployment import Deployment


def agents(name: str, around: Around, deployment: Deployment, policy: Policy = NO_POLICY) -> CodeWorkflow:
    """The workflow `name` of the agents of a definition. The agent of a step uses no tools but those that the step names, of what is `around`."""
    return workflow(Profile(name, around.find, (), deployment=deployment, policy=policy))
