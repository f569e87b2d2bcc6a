#!/usr/bin/env python3
"""Weights of transformers in and out, against the models themselves, on the CPU.

  train_weights.py ZPLAN

Small random models of transformers are saved; ZPLAN (the program) reads, trains and writes them
under several plans. Demanded are, of each: after no step the same values, bit by bit; the losses of
the same steps in PyTorch (AdamW, clipping); of the weights that are written after the last but one
step the loss that zplan has in the last. Exit code 1 where something differs, 77 where torch or
transformers is absent.
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile

SKIPPED = 77
SEQUENCE, BATCH, STEPS = 24, 4, 4
TRAIN = {"learning_rate": 1e-2, "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8,
         "weight_decay": 0.1, "clip_norm": 1.0}  # fmt: skip
# Single precision on both sides: transformers computes angles and router weights in it whatever the
# type of a model is.
CLOSE = 2e-6  # of a loss
LLAMA = {"vocab_size": 256, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2,
         "max_position_embeddings": 64}  # fmt: skip

# A class, what it is made of, and the plans it is trained with.
CASES = (
    ("GPT2", {"vocab_size": 256, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64},
     (("--dp", "1", "--tp", "2", "--pp", "2"), ("--dp", "4", "--zero", "3"))),
    ("Llama", LLAMA,
     (("--dp", "1", "--tp", "2", "--pp", "2"), ("--dp", "2", "--tp", "2", "--zero", "3"))),
    ("Llama", LLAMA | {"tie_word_embeddings": True, "num_key_value_heads": 4},
     (("--dp", "2", "--pp", "2", "--zero", "1"),)),
    ("Mistral", LLAMA | {"sliding_window": None}, (("--dp", "4", "--zero", "1"),)),
    ("Qwen2", LLAMA | {"tie_word_embeddings": False}, (("--dp", "2", "--tp", "2"),)),
    ("Qwen3", LLAMA | {"head_dim": 16}, (("--dp", "2", "--pp", "2", "--zero", "1"),)),
    ("Mixtral", LLAMA | {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None,
                         "router_aux_loss_coef": 0.0},
     (("--dp", "4", "--zero", "3"), ("--dp", "2", "--tp", "2", "--zero", "2"))),
)  # fmt: skip


def data():
    """One sequence and its targets: every sample of it is the same."""
    return bytes((7 * i * i + 3 * i) % 251 for i in range(SEQUENCE + 1))


class Case:
    def __init__(self, program, name, config, folder):
        import torch
        import transformers

        self.program, self.folder = program, folder
        torch.manual_seed(5)
        made = getattr(transformers, name + "Config")(**config)
        # As large as those of a trained model, so that every part of the model counts.
        self.model = transformers.AutoModelForCausalLM.from_config(made)
        for value in self.model.parameters():
            torch.nn.init.normal_(value, 1.0 if value.dim() == 1 else 0.0, 0.1)
        self.model.save_pretrained(self.path("in"))
        for name, text in (("data", data()), ("train.json", self.train())):
            with open(self.path(name), "wb") as file:
                file.write(text)

    @staticmethod
    def train():
        return json.dumps({"schema": "zplan.train/1"} | TRAIN).encode()

    def path(self, name):
        return os.path.join(self.folder, name)

    def zplan(self, *arguments):
        done = subprocess.run([self.program, *arguments], cwd=self.folder, capture_output=True,
                              text=True, timeout=300, check=False)  # fmt: skip
        assert done.returncode == 0, f"{' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def run(self, steps, out):
        answer = self.zplan("run", "plan.json", "--steps", str(steps), "--dtype", "f32", "--data",
                            "data", "--train", "train.json", "--weights", "in", "--export", out,
                            "--json")  # fmt: skip
        return [step["loss"] for step in json.loads(answer)["steps"]]

    def loaded(self, name):
        import transformers

        return transformers.AutoModelForCausalLM.from_pretrained(self.path(name))

    def loss_of(self, model):
        import torch

        tokens = torch.tensor([list(data())])
        logits = model(tokens[:, :-1]).logits
        return torch.nn.functional.cross_entropy(logits[0].float(), tokens[0, 1:])

    def expected_losses(self):
        """Of the steps in PyTorch; matrices decay, vectors do not."""
        import torch

        model = self.loaded("in").train()
        all_of = list(model.parameters())
        groups = [{"params": [p for p in all_of if p.dim() > 1],
                   "weight_decay": TRAIN["weight_decay"]},
                  {"params": [p for p in all_of if p.dim() == 1], "weight_decay": 0.0}]  # fmt: skip
        optimizer = torch.optim.AdamW(groups, lr=TRAIN["learning_rate"], eps=TRAIN["epsilon"],
                                      betas=(TRAIN["beta1"], TRAIN["beta2"]))  # fmt: skip
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        losses = []
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = self.loss_of(model)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(all_of, TRAIN["clip_norm"])
            optimizer.step()
            losses.append(float(loss))
        return losses

    def check(self, pins):
        import torch

        self.zplan("plan", "--model", "./in", "--cluster", "workstation", "--seq", str(SEQUENCE),
                   "--global-batch", str(BATCH), *pins, "-o", "plan.json")  # fmt: skip
        out = [self.path(f"{'-'.join(pins)}-{steps}") for steps in (0, STEPS - 1, STEPS)]
        self.run(0, out[0])
        expected, found = self.model.state_dict(), self.loaded(out[0]).state_dict()
        assert expected.keys() == found.keys(), expected.keys() ^ found.keys()
        for name, value in expected.items():
            assert torch.equal(value, found[name]), f"{name} is not what it was"
        self.run(STEPS - 1, out[1])
        losses, wanted = self.run(STEPS, out[2]), self.expected_losses()
        assert losses[0] - losses[-1] > 0.05, f"does not learn: {losses}"
        far = max(abs(a - b) / b for a, b in zip(losses, wanted))
        assert far < CLOSE, f"losses {losses}, in PyTorch {wanted}"
        with torch.no_grad():
            loss = float(self.loss_of(self.loaded(out[1]).eval()))
        last = abs(loss - losses[-1]) / loss
        assert last < CLOSE, f"loss {losses[-1]}, of what was written {loss}"
        print(f"  {' '.join(pins)}: losses differ by {far:.1e}, that of what is written by {last:.1e}")


def main():
    if not all(importlib.util.find_spec(name) for name in ("torch", "transformers")):
        print("skipped: torch or transformers is not installed")
        return SKIPPED
    os.environ["HF_HUB_OFFLINE"] = "1"
    program, failed = os.path.abspath(sys.argv[1]), 0
    for name, config, plans in CASES:
        print(name)
        with tempfile.TemporaryDirectory() as folder:
            case = Case(program, name, config, folder)
            for pins in plans:
                try:
                    case.check(pins)
                except AssertionError as error:
                    print(f"  FAILED {' '.join(pins)}: {error}")
                    failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
