"""TRL's GRPOTrainer and verl's loader of reward functions, as installed, driven by a real `warpsmith serve` on the CPU target.

Run:  WARPSMITH_CLI=build/test/bin/warpsmith python3 python/tests/test_trainers.py
with an interpreter that has trl (and torch, transformers) or verl; what is missing is reported as skipped. The model is
tiny, random and trained on the CPU. scripts/trainers.sh records what ran. Each token of its vocabulary is a whole answer, so that one token is a kernel.
"""

import asyncio
import importlib.util
import os
import pathlib
import sys
import tempfile
import unittest

from serving import ServedTest

REWARDS = pathlib.Path(__file__).resolve().parent.parent / "rewards"
PROBLEM = "48x40x56 nn f16 f32"

RECIPES = ["cpu simd=avx2 tile=4x1 block=8xallx256", "cpu simd=avx2 tile=4x1 unroll=1", "cpu simd=avx2 tile=1x1",
           "cpu simd=avx2 tile=4x1 threads=2", "no recipe at all"]


def answer(recipe):
    return f"## Performance analysis\nx\n## Algorithm design\ny\n## Code\n```recipe\n{recipe}\n```"


def load(name):
    spec = importlib.util.spec_from_file_location(name, REWARDS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def missing(*packages):
    absent = [package for package in packages if importlib.util.find_spec(package) is None]
    return f"not installed: {', '.join(absent)}" if absent else ""


class TrainerTest(ServedTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        os.environ["WARPSMITH_SERVE_URL"] = cls.url
        os.environ["WARPSMITH_SERVE_TOKEN"] = cls.TOKEN
        os.environ["WARPSMITH_SERVE_TIMEOUT"] = "120"

    def test_rewards_are_measured_speeds(self):
        rewards = load("trl_reward").reward_func(["p"] * 5, [answer(recipe) for recipe in RECIPES], problem=[PROBLEM] * 5)
        self.assertEqual([reward > 0 for reward in rewards], [True, True, True, False, False])
        score = load("verl_reward").compute_score("warpsmith", answer(RECIPES[0]), PROBLEM)
        self.assertAlmostEqual(score["score"], rewards[0])
        self.assertEqual(score["accepted"], 1)

    @unittest.skipIf(missing("requests", "aiohttp"), missing("requests", "aiohttp"))
    def test_openrlhf_sends_the_token_in_the_url(self):
        import aiohttp
        import requests

        url = os.environ["WARPSMITH_SERVE_URL"].replace("//", f"//any:{self.TOKEN}@") + "/get_reward"
        body = {"query": ["Q" + answer(RECIPES[0]), "Qprose"], "prompts": ["Q", "Q"], "labels": [PROBLEM, PROBLEM]}
        first = requests.post(url=url, json=body, headers={"Content-Type": "application/json"}, timeout=180)
        first.raise_for_status()

        async def ask():
            async with aiohttp.ClientSession() as session:
                async with session.post(url, json=body) as response:
                    response.raise_for_status()
                    return await response.json()

        second = asyncio.run(ask())
        self.assertEqual(first.json()["rewards"], second["rewards"])
        self.assertGreater(second["rewards"][0], 0)
        self.assertLess(second["rewards"][1], 0)
        self.assertEqual(requests.post(url=url.replace(self.TOKEN, "wrong"), json=body, timeout=180).status_code, 401)

    @unittest.skipIf(missing("trl", "torch", "transformers", "datasets"), missing("trl", "torch", "transformers", "datasets"))
    def test_trl_trains_a_few_steps(self):
        import datasets
        import tokenizers
        import torch
        import transformers
        import trl

        words = ["[PAD]", "[EOS]", "[UNK]", "Write."] + [answer(recipe) for recipe in RECIPES]
        words_by_name = {word: number for number, word in enumerate(words)}
        plain = tokenizers.Tokenizer(tokenizers.models.WordLevel(words_by_name, unk_token="[UNK]"))
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="[PAD]", eos_token="[EOS]",
                                                         unk_token="[UNK]", padding_side="left")
        torch.manual_seed(1)
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
            vocab_size=len(words), n_positions=16, n_embd=16, n_layer=1, n_head=2,
            bos_token_id=1, eos_token_id=1, pad_token_id=0))
        seen = []
        reward_func = load("trl_reward").reward_func

        def watched(prompts, completions, **columns):
            rewards = reward_func(prompts, completions, **columns)
            seen.extend(zip(completions, rewards))
            return rewards

        with tempfile.TemporaryDirectory() as output:
            arguments = trl.GRPOConfig(
                output_dir=output, per_device_train_batch_size=16, num_generations=16, max_completion_length=1,
                max_steps=4, learning_rate=0.05, logging_steps=1, report_to=[], use_cpu=True, save_strategy="no",
                beta=0.0, disable_tqdm=True)
            rows = datasets.Dataset.from_dict({"prompt": ["Write."] * 8, "problem": [PROBLEM] * 8})
            trainer = trl.GRPOTrainer(model=model, reward_funcs=watched, args=arguments, train_dataset=rows,
                                      processing_class=tokenizer)
            trainer.train()
        self.assertEqual(trainer.state.global_step, 4)
        self.assertEqual(len(seen), 4 * 16)
        logged = [row["reward"] for row in trainer.state.log_history if "reward" in row]
        self.assertEqual(len(logged), 4)
        self.assertTrue(any(reward > 0 for _, reward in seen), seen)
        self.assertTrue(any(reward < 0 for _, reward in seen), seen)
        by_answer = {}
        for completion, reward in seen:
            by_answer.setdefault(completion, set()).add(reward)
        self.assertTrue(all(len(rewards) == 1 for rewards in by_answer.values()), "an equal answer, an equal reward")

    @unittest.skipIf(missing("verl", "tensordict", "ray", "omegaconf"), missing("verl", "tensordict", "ray", "omegaconf"))
    def test_verl_loads_and_calls_it(self):
        import omegaconf
        from verl.trainer.ppo.reward import get_custom_reward_fn

        config = omegaconf.OmegaConf.create({"reward": {"custom_reward_function": {
            "path": str(REWARDS / "verl_reward.py"), "name": "compute_score"}}})
        compute_score = get_custom_reward_fn(config)
        result = compute_score(data_source="warpsmith", solution_str=answer(RECIPES[0]), ground_truth=PROBLEM, extra_info={})
        if asyncio.iscoroutine(result):
            result = asyncio.run(result)
        self.assertGreater(result["score"], 0)
        self.assertEqual(result["accepted"], 1)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
