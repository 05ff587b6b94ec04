"""A scripted provider of models: it speaks the HTTP protocols of two vendors on this machine, and answers what a script says.

`script` is what it is told, `seen` a request as all protocols mean it; `chat_completions`, `responses` and `anthropic_messages` read and write one
protocol each; `app` answers a request, and `listening` serves it. With it, what asks models is tested over real HTTP, without a key and without the world.
"""

from perdure.fake_llm.app import Fake
from perdure.fake_llm.listening import environment, models, models_yaml, serving, serving_aside
from perdure.fake_llm.script import Rule, Script, load

__all__ = ["Fake", "Rule", "Script", "environment", "load", "models", "models_yaml", "serving", "serving_aside"]
