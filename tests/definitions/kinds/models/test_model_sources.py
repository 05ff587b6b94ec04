"""Sources: models in a file."""

from pathlib import Path

import pytest

from perdure.core.errors import BadValue
from perdure.definitions.kinds.models.model_sources import ModelPrice, ModelSource, load_sources, model_source
from perdure.fake_llm import models, models_yaml


def test_models_are_read_from_yaml_and_json(tmp_path: Path) -> None:
    (tmp_path / "models.yaml").write_text(
        """
small: {provider: openai, model: gpt-x, price: {input: 1, output: 4, cache_read: 0.1}}
ours: {provider: openai-chat, model: llama, base_url: "http://gpu:8000/v1", key: GPU_KEY, settings: {top_p: 0.5}}
careful: [small, ours, "anthropic:claude-x"]
"""
    )
    (tmp_path / "models.json").write_text('{"large": {"provider": "anthropic", "model": "claude-x"}}')
    assert load_sources(tmp_path / "models.yaml") == {
        "small": ModelSource("openai", "gpt-x", price=ModelPrice(1, 4, 0.1)),
        "ours": ModelSource("openai-chat", "llama", "http://gpu:8000/v1", "GPU_KEY", settings={"top_p": 0.5}),
        "careful": ("small", "ours", "anthropic:claude-x"),
    }
    assert load_sources(tmp_path / "models.json") == {"large": ModelSource("anthropic", "claude-x")}
    (tmp_path / "fake.yaml").write_text(models_yaml("http://127.0.0.1:5"))
    assert load_sources(tmp_path / "fake.yaml") == {name: model_source(models("http://127.0.0.1:5"), name) for name in models("")}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("small: {provider: acme, model: x}", "small.*Invalid enum value 'acme'"),
        ("small: {provider: openai}", "small.*missing required field `model`"),
        ("small: {provider: openai, model: x, url: y}", "small.*unknown field `url`"),
        ("small: [", "YAML"),
        ("small: [large]", "small.*'large' is not the name of a model of this file"),
        ("small: [other]\nother: [small]", "small.*no list"),
        ("best: []", "best: .. is not a list of one or more names"),
        ("best: [openai]", "best: 'openai' is not the name of a model of this file.*vendor's own such as openai:"),
        ('best: ["openai:"]', "best: 'openai:' is not the name of a model of this file.*vendor's own such as openai:"),
        ("- a", "a mapping of names to models"),
    ],
)
def test_what_is_wrong_in_a_file_is_told_with_its_name(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "models.yaml").write_text(text)
    with pytest.raises(BadValue, match=f"models.yaml.*{says}"):
        load_sources(tmp_path / "models.yaml")


def test_a_vendors_own_model_is_named_with_the_vendor() -> None:
    assert model_source({}, "anthropic:claude-x") == ModelSource("anthropic", "claude-x")
    assert model_source({}, "openai-chat:ft:gpt:me") == ModelSource("openai-chat", "ft:gpt:me")
