"""A scripted model provider for tests: it speaks the HTTP protocols of two vendors on this machine, and answers by a script.

`fake_script` holds scripts and the common form of requests; `openai_protocols` and `anthropic_protocol` read and write the protocols; `fake_app` answers
requests, and `fake_server` serves it. Tests of model calls thus use real HTTP without a key or the internet.
"""

from perdure.fake_llm.fake_app import Fake
from perdure.fake_llm.fake_script import Script, ScriptRule, load
from perdure.fake_llm.fake_server import environment, models, models_yaml, serving, serving_aside

__all__ = ["Fake", "Script", "ScriptRule", "environment", "load", "models", "models_yaml", "serving", "serving_aside"]
