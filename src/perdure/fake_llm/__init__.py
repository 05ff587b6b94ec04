"""A scripted provider of models: it speaks the HTTP protocols of two vendors on this machine, and answers what a script says.

`script` is what it is told, `seen` a request as all protocols mean it; `chat_completions`, `responses` and `anthropic_messages` read and write one
protocol each; `app` answers a request, and `listening` serves it. With it, what asks models is tested over real HTTP, without a key and without the world.
"""

from perdure.fake_llm.fake_app import Fake
from perdure.fake_llm.fake_script import Script, ScriptRule, load
from perdure.fake_llm.fake_server import environment, models, models_yaml, serving, serving_aside

__all__ = ["Fake", "Script", "ScriptRule", "environment", "load", "models", "models_yaml", "serving", "serving_aside"]
