#!/usr/bin/env python3
"""What real modules hold on a GPU during forward and backward, by PyTorch's MemTracker.

Hugging Face classes with a configuration made here and no weights, on fake CUDA tensors with a fake
process group: shapes and lifetimes are real, nothing is computed, no GPU is needed. The step is forward and backward of one micro-batch beside AdamW's moments; what is written
down is the peak up to the update, which foreach AdamW would over-count.

Without a driver PyTorch takes the math path of scaled_dot_product_attention even for CUDA tensors,
so it is sent to the flash operator here.

One GPU: all in bf16, moments too (recipe lean). 8 ranks: fully_shard of each decoder layer and of
the root, fp32 parameters, gathered in bf16, gradients reduced in fp32 (recipe fsdp).

usage: memory_tracker.py --case NAME | --list | --all FILE
  --all: every case that FILE does not have yet, each in a process of its own of at most 600 s.
"""
import argparse
import contextlib
import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

MOST_SECONDS = 600
RANKS = 8

# Published configurations; what is not said is the default of the class.
LLAMA_1B = dict(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16,
                num_attention_heads=32, num_key_value_heads=8, head_dim=64, vocab_size=128256,
                tie_word_embeddings=True, max_position_embeddings=131072)
LLAMA_8B = dict(hidden_size=4096, intermediate_size=14336, num_hidden_layers=32,
                num_attention_heads=32, num_key_value_heads=8, vocab_size=128256,
                tie_word_embeddings=False, max_position_embeddings=8192)
MISTRAL_7B = dict(hidden_size=4096, intermediate_size=14336, num_hidden_layers=32,
                  num_attention_heads=32, num_key_value_heads=8, vocab_size=32000,
                  sliding_window=4096, tie_word_embeddings=False)
QWEN_05B = dict(hidden_size=896, intermediate_size=4864, num_hidden_layers=24,
                num_attention_heads=14, num_key_value_heads=2, vocab_size=151936,
                tie_word_embeddings=True, max_position_embeddings=32768)
QWEN_7B = dict(hidden_size=3584, intermediate_size=18944, num_hidden_layers=28,
               num_attention_heads=28, num_key_value_heads=4, vocab_size=152064,
               tie_word_embeddings=False, max_position_embeddings=32768)
PHI3_MINI = dict(hidden_size=3072, intermediate_size=8192, num_hidden_layers=32,
                 num_attention_heads=32, num_key_value_heads=32, vocab_size=32064,
                 sliding_window=2047, tie_word_embeddings=False, pad_token_id=0,
                 embd_pdrop=0.0, resid_pdrop=0.0, attention_dropout=0.0)
NO_DROPOUT = dict(embd_pdrop=0.0, resid_pdrop=0.0, attn_pdrop=0.0)
GPT2 = dict(NO_DROPOUT)
GPT2_XL = dict(NO_DROPOUT, n_embd=1600, n_layer=48, n_head=25)

# model of zplan -> class of configuration, its arguments
MODELS = {
    "gpt2-124m": ("GPT2Config", GPT2),
    "gpt2-1.5b": ("GPT2Config", GPT2_XL),
    "llama3.2-1b": ("LlamaConfig", LLAMA_1B),
    "llama3-8b": ("LlamaConfig", LLAMA_8B),
    "mistral-7b": ("MistralConfig", MISTRAL_7B),
    "qwen2.5-0.5b": ("Qwen2Config", QWEN_05B),
    "qwen2.5-7b": ("Qwen2Config", QWEN_7B),
    "phi3-mini": ("Phi3Config", PHI3_MINI),
}

# (model, attention, recomputation, ranks, micro-batch, sequence); the smallest models first
GRID = [
    ("gpt2-124m", "sdpa", False, 1, 8, 1024),
    ("gpt2-124m", "sdpa", True, 1, 16, 1024),
    ("gpt2-124m", "eager", False, 1, 4, 1024),
    ("gpt2-124m", "eager", True, 1, 8, 1024),
    ("gpt2-124m", "sdpa", False, RANKS, 16, 1024),
    ("llama3.2-1b", "sdpa", False, 1, 2, 2048),
    ("llama3.2-1b", "sdpa", True, 1, 1, 8192),
    ("llama3.2-1b", "eager", False, 1, 1, 2048),
    ("llama3.2-1b", "eager", True, 1, 2, 4096),
    ("llama3.2-1b", "sdpa", False, RANKS, 1, 8192),
    ("llama3.2-1b", "sdpa", True, RANKS, 4, 4096),
    ("qwen2.5-0.5b", "sdpa", False, 1, 4, 2048),
    ("qwen2.5-0.5b", "eager", False, 1, 2, 1024),
    ("qwen2.5-0.5b", "sdpa", True, 1, 4, 4096),
    ("qwen2.5-0.5b", "sdpa", False, RANKS, 2, 4096),
    ("qwen2.5-7b", "sdpa", False, RANKS, 1, 4096),
    ("qwen2.5-7b", "sdpa", True, RANKS, 2, 8192),
    ("phi3-mini", "sdpa", False, 1, 1, 1024),
    ("phi3-mini", "sdpa", False, RANKS, 4, 1024),
    ("phi3-mini", "sdpa", True, RANKS, 16, 1024),
    ("phi3-mini", "eager", False, RANKS, 2, 1024),
    ("mistral-7b", "sdpa", False, RANKS, 1, 2048),
    ("mistral-7b", "sdpa", True, RANKS, 8, 2048),
    ("mistral-7b", "eager", True, RANKS, 1, 2048),
    ("gpt2-1.5b", "sdpa", False, RANKS, 4, 1024),
    ("gpt2-1.5b", "sdpa", True, RANKS, 16, 1024),
    ("llama3-8b", "sdpa", True, 1, 1, 8192),
    ("llama3-8b", "sdpa", True, RANKS, 2, 8192),
    ("llama3-8b", "eager", True, RANKS, 1, 4096),
    ("llama3-8b", "sdpa", False, RANKS, 4, 1024),
    ("llama3-8b", "sdpa", False, RANKS, 1, 8192),
]


def name_of(case):
    model, attention, recompute, ranks, batch, sequence = case
    return (f"{model}.{attention}.{'recompute' if recompute else 'keep'}."
            f"{'fsdp8' if ranks > 1 else 'one'}.b{batch}.s{sequence}")


class FakeStream:
    """In place of CUDA streams and events, which need a driver."""
    stream_id, device_index, device_type = 0, 0, 1

    def __init__(self, *_, **__):
        pass

    def record_event(self, *_):
        return FakeStream()

    def query(self):
        return True

    def _nothing(self, *_, **__):
        return None

    wait_stream = wait_event = synchronize = record = wait = _nothing


def fake_driver(torch):
    # Autograd's engine asks CUDA whether it has a context, and CUDA asks the driver. Here it is told
    # what isBuilt says: yes. Places in the table of functions: AcceleratorHooksInterface.h.
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    hooks_of = library._ZN2at6detail12getCUDAHooksEv
    hooks_of.restype = ctypes.POINTER(ctypes.c_void_p)
    hooks, before, entries, is_built, has_primary_context = hooks_of(), 2, 100, 2, 4
    word = ctypes.sizeof(ctypes.c_void_p)
    table = (ctypes.c_void_p * (before + entries)).from_buffer_copy(
        ctypes.string_at(hooks[0] - before * word, (before + entries) * word))
    table[before + has_primary_context] = table[before + is_built]
    hooks[0] = ctypes.addressof(table) + before * word
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(table))  # longer than the interpreter
    cuda = torch.cuda
    stream = FakeStream()
    cuda.Stream = cuda.Event = torch.Event = FakeStream
    cuda.current_stream = cuda.default_stream = lambda *_: stream
    cuda.stream = lambda *_: contextlib.nullcontext()
    cuda.current_device = lambda: 0
    cuda.set_device = lambda *_: None
    cuda.device_count = lambda: RANKS
    cuda.device = lambda *_: contextlib.nullcontext()
    cuda.synchronize = lambda *_: None


def flash_attention(torch):
    def attend(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
               enable_gqa=False):
        assert attn_mask is None and is_causal, "not what the flash operator takes"
        return torch.ops.aten._scaled_dot_product_flash_attention(
            query, key, value, dropout_p, is_causal, False, scale=scale)[0]
    torch.nn.functional.scaled_dot_product_attention = attend


def one_document_each():
    """Hugging Face reads positions to tell packed sequences, which fake tensors do not have."""
    import transformers.masking_utils
    transformers.masking_utils.find_packed_sequence_indices = lambda *_: None


def tracker_class(torch):
    from torch.distributed._tools.mem_tracker import MemTracker

    class Tracker(MemTracker):
        """Keeps the peak of the whole alone, and the operator that it stands at."""
        at = now = ""

        def _update_peak_stats(self, peak_state):
            for device, snapshot in self._curr_mem_snap.items():
                if device.type != "cuda" or self._peak_mem.get(device, 0) >= snapshot["Total"]:
                    continue
                self._peak_mem[device] = snapshot["Total"]
                self._peak_mem_snap[device] = dict(snapshot)
                way = "backward" if self._mod_tracker.is_bw else "forward"
                self.at = f"{way}: {self.now}"

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.now = str(func)
            return super().__torch_dispatch__(func, types, args, kwargs)

    return Tracker


def build(torch, case, mesh):
    import transformers
    model, attention, recompute, ranks, _, _ = case
    kind, arguments = MODELS[model]
    config = getattr(transformers, kind)(**arguments)
    config.use_cache = False
    dtype = torch.float32 if ranks > 1 else torch.bfloat16
    made = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype,
                                                         attn_implementation=attention)
    made.train()
    if recompute:
        made.gradient_checkpointing_enable(
            {"use_reentrant": False, "preserve_rng_state": False})
    if ranks > 1:
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        base = getattr(made, made.base_model_prefix)
        for layer in base.h if hasattr(base, "h") else base.layers:
            fully_shard(layer, mesh=mesh, mp_policy=policy)
        fully_shard(made, mesh=mesh, mp_policy=policy)
    return made


def with_moments(torch, model):
    """AdamW as it is after its first update."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for p in model.parameters():
        optimizer.state[p] = {"step": torch.zeros((), device="cpu"),
                              "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
    return optimizer


def parts(snapshot):
    """Bytes by the tracker's category, of the CUDA device."""
    found = {}
    for device, own in snapshot.items():
        if device.type == "cuda":
            for key, value in own.items():
                word = getattr(key, "value", key).lower()
                found[word] = found.get(word, 0) + int(value)
    return {word: value for word, value in sorted(found.items()) if value}


def measure(case):
    import torch
    import torch.distributed as dist
    import transformers
    from torch.distributed.device_mesh import init_device_mesh
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.testing._internal.distributed.fake_pg import FakeStore

    model_name, attention, recompute, ranks, batch, sequence = case
    fake_driver(torch)
    flash_attention(torch)
    one_document_each()
    mesh = None
    if ranks > 1:
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
        mesh = init_device_mesh("cuda", (ranks,))
    tracker = tracker_class(torch)()
    FakeTensorMode.avoid_device_init = True
    with FakeTensorMode():
        with torch.device("cuda:0"):
            model = build(torch, case, mesh)
            optimizer = with_moments(torch, model)
            tokens = torch.zeros(batch, sequence, dtype=torch.int64)
        tracker.track_external(model, optimizer)
        with tracker:
            held = parts(tracker.get_tracker_snapshot("current"))
            loss = model(input_ids=tokens, labels=tokens).loss
            after_forward = parts(tracker.get_tracker_snapshot("current"))
            loss.backward()
            after_backward = parts(tracker.get_tracker_snapshot("current"))
            peak = parts(tracker.get_tracker_snapshot("peak"))
    return {
        "case": name_of(case), "model": model_name, "attention": attention,
        "recompute": recompute, "ranks": ranks, "micro_batch": batch, "sequence": sequence,
        "peak_bytes": peak["total"], "peak": peak, "peak_at": tracker.at,
        "before_step": held, "after_forward": after_forward, "after_backward": after_backward,
        "torch": torch.__version__, "transformers": transformers.__version__,
        "command": f"tests/frameworks/memory_tracker.py --case {name_of(case)}",
    }


def measure_all(path):
    done = set()
    if path.exists():
        done = {json.loads(line)["case"] for line in path.read_text().splitlines()}
    for case in GRID:
        name = name_of(case)
        if name in done:
            continue
        try:
            run = subprocess.run([sys.executable, __file__, "--case", name], text=True,
                                 stdout=subprocess.PIPE, timeout=MOST_SECONDS)
        except subprocess.TimeoutExpired:
            print(f"{name}: more than {MOST_SECONDS} s", file=sys.stderr)
            continue
        if run.returncode != 0:
            print(f"{name}: failed", file=sys.stderr)
            continue
        with path.open("a") as out:
            out.write(run.stdout)
        print(name, json.loads(run.stdout)["peak_bytes"] / 2**30, file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--case")
    what.add_argument("--list", action="store_true")
    what.add_argument("--all", type=Path, metavar="FILE")
    args = parser.parse_args()
    by_name = {name_of(case): case for case in GRID}
    if args.list:
        print("\n".join(by_name))
    elif args.all:
        measure_all(args.all)
    elif args.case not in by_name:
        parser.error(f"unknown case {args.case}")
    else:
        print(json.dumps(measure(by_name[args.case])))


if __name__ == "__main__":
    main()
