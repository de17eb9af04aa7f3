"""Trains the bundled model: stories from corpus.py, a SentencePiece tokenizer, then llama.py.

Owns the sizes of the model, the data, the optimizer and the log. corpus.py writes the stories, llama.py has the forward
pass, and export_gguf.py writes the file that norma opens.

Everything is written to one folder: tokenizer.model, the tokens, log.csv and checkpoint.pt. Training continues from the
checkpoint if there is one. With the same options, an interrupted run gives the same result as an uninterrupted one.
"""

import argparse
import io
import os
import sys
import time
from dataclasses import asdict, astuple, replace
from pathlib import Path

import corpus
import numpy as np
import sentencepiece
import torch
from llama import NORMS, PLACEMENTS, QK_NORMS, Llama

sys.path.append(str(Path(__file__).resolve().parents[1]))
from checkpoint import Config

CONFIG = Config(192, 512, 4, 6, 2, 2000, 256, True)
SHAPE = ",".join(map(str, astuple(CONFIG)[:5]))
SEED = 1
N_STORIES = 160_000  # for training
N_HELD_OUT = 1000
N_TOKENIZER = 20_000  # stories that the tokenizer is trained on
WARMUP, DECAY = 100, 0.4  # of the learning rate: steps of warm-up, fraction of all steps in the decay
WEIGHT_DECAY, BETAS, CLIP = 0.1, (0.9, 0.98), 1.0


def train_tokenizer(path):
    """BPE with byte fallback, identity normalization, white space kept; newlines are bytes."""
    paragraphs = (p for story in corpus.stories(N_TOKENIZER, SEED) for p in story.split("\n"))
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=paragraphs,
        model_writer=model,
        vocab_size=CONFIG.vocab_size,
        model_type="bpe",
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=True,
        character_coverage=1.0,
        required_chars="".join(map(chr, range(ord("!"), ord("~") + 1))),
        unk_id=0,
        bos_id=1,
        eos_id=2,
        pad_id=-1,
        minloglevel=2,
    )
    path.write_bytes(model.getvalue())


def tokenize(folder, tokenizer, n, held_out):
    """int16 [n, longest story]: BOS, story, EOS, then -1."""
    path = folder / ("held_out.npy" if held_out else "train.npy")
    if not path.exists():
        rows = [tokenizer.encode(text) for text in corpus.stories(n, SEED, held_out)]
        tokens = np.full((n, max(map(len, rows)) + 2), -1, np.int16)
        for row, ids in zip(tokens, rows, strict=True):
            row[: len(ids) + 2] = [tokenizer.bos_id(), *ids, tokenizer.eos_id()]
        np.save(path, tokens)
    return torch.from_numpy(np.load(path))


def learning_rate(step, steps, peak, warm_up=WARMUP):
    """Linear warm-up, constant peak, linear decay to zero. Before the decay, the total number of steps can change."""
    return peak * min((step + 1) / max(warm_up, 1), 1, (steps - step) / (DECAY * steps))


@torch.no_grad()
def held_out_loss(model, tokens, batch):
    """The mean loss over all tokens, not over batches."""
    total = count = 0
    for rows in tokens.split(batch):
        n = (rows[:, 1:] >= 0).sum().item()
        total += model.loss(rows.long()).item() * n
        count += n
    return total / count


def shaped(text):
    """Returns CONFIG with the five numbers of --shape."""
    try:
        dim, hidden_dim, n_layers, n_heads, n_kv_heads = map(int, text.split(","))
    except ValueError:
        raise ValueError(f"--shape is '{text}', expected five whole numbers: {SHAPE}") from None
    return Config(dim, hidden_dim, n_layers, n_heads, n_kv_heads, *astuple(CONFIG)[5:])


def save(path, value):
    partial = path.with_suffix(".part")
    torch.save(value, partial)
    os.replace(partial, path)


def main():
    parser = argparse.ArgumentParser(usage="%(prog)s [FOLDER] [options]", description="Train the bundled model.")
    parser.add_argument("folder", metavar="FOLDER", nargs="?", type=Path, default=Path("build/stories"))
    parser.add_argument("--norm", choices=NORMS, default="rms", help="the kind of every norm [rms]")
    parser.add_argument("--placement", choices=PLACEMENTS, default="pre", help="of norms (see llama.py) [pre]")
    parser.add_argument("--qk-norm", choices=QK_NORMS, default="none", help="norms of queries and keys [none]")
    parser.add_argument("--shape", default=SHAPE, help=f"dim, hidden, layers, heads, key and value heads [{SHAPE}]")
    parser.add_argument("--steps", type=int, default=3000, help="[3000]")
    parser.add_argument("--batch", type=int, default=40, help="stories per step [40]")
    parser.add_argument("--lr", type=float, default=2e-3, help="peak learning rate [0.002]")
    parser.add_argument("--warm-up", type=int, default=WARMUP, help=f"steps until the peak learning rate [{WARMUP}]")
    parser.add_argument("--separate-classifier", action="store_true", help="instead of the token embedding")
    parser.add_argument("--scaled-embeddings", action="store_true", help="multiply embeddings by sqrt(dim)")
    parser.add_argument("--seed", type=int, default=SEED, help="of initial weights and order of stories [1]")
    parser.add_argument("--float32", action="store_true", help="no bfloat16; for processors that only emulate it")
    parser.add_argument("--threads", type=int, default=2, help="[2]")
    args = parser.parse_args()
    if min(args.steps, args.batch, args.threads) < 1 or not args.lr > 0:
        raise ValueError("--steps, --batch, --threads and --lr must be positive")

    config = replace(shaped(args.shape), shared_classifier=not args.separate_classifier)
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    folder = args.folder
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "tokenizer.model").exists():
        train_tokenizer(folder / "tokenizer.model")
    tokenizer = sentencepiece.SentencePieceProcessor(str(folder / "tokenizer.model"))
    train = tokenize(folder, tokenizer, N_STORIES, held_out=False)
    held_out = tokenize(folder, tokenizer, N_HELD_OUT, held_out=True)

    model = Llama(config, args.norm, args.placement, args.qk_norm, args.scaled_embeddings)
    matrices = [w for w in model.parameters() if w.dim() == 2]
    vectors = [w for w in model.parameters() if w.dim() < 2]
    groups = [{"params": matrices, "weight_decay": WEIGHT_DECAY}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, args.lr, BETAS, fused=True)
    first, seconds, history = 0, 0.0, []
    log = folder / "log.csv"
    named = "norm", "placement", "qk_norm", "batch", "lr", "warm_up", "scaled_embeddings", "seed"
    options = {name: value for name, value in vars(args).items() if name in named}
    if (folder / "checkpoint.pt").exists():
        state = torch.load(folder / "checkpoint.pt", weights_only=True)
        if (found := state["config"] | state["options"]) != (expected := asdict(config) | options):
            raise ValueError(f"{folder}/checkpoint.pt was trained with {found}, not {expected}")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first, seconds, history = state["step"], state["seconds"], state["losses"]
        lines = log.read_text().splitlines(keepends=True)
        log.write_text("".join([lines[0], *(line for line in lines[1:] if int(line.split(",")[0]) <= first)]))
    else:
        log.write_text("step,stories,train_loss,held_out_loss,learning_rate,seconds,steps_per_second\n")
    print(
        f"{sum(w.numel() for w in model.parameters())} parameters, {len(train)} stories, from step {first}", flush=True
    )

    order = torch.randperm(len(train), generator=torch.Generator().manual_seed(args.seed))
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=not args.float32)
    start, interval, losses = time.perf_counter() - seconds, (first, seconds), []
    for step in range(first, args.steps):
        rows = order[torch.arange(step * args.batch, (step + 1) * args.batch) % len(train)]
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, args.steps, args.lr, args.warm_up)
        with autocast:
            loss = model.loss(train[rows].long())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        losses.append(loss.item())
        done = step + 1
        if done % 250 == 0 or done == args.steps:
            seconds = time.perf_counter() - start
            speed = (done - interval[0]) / (seconds - interval[1])
            with autocast:
                validation = held_out_loss(model, held_out, args.batch)
            rate = optimizer.param_groups[0]["lr"]
            line = f"{done},{done * args.batch},{sum(losses) / len(losses):.4f},{validation:.4f},{rate:.2e},{seconds:.0f},{speed:.2f}"
            print(line, flush=True)
            with log.open("a") as file:
                file.write(line + "\n")
            save(
                folder / "checkpoint.pt",
                {
                    "config": asdict(config),
                    "options": options,
                    "step": done,
                    "seconds": seconds,
                    "losses": history + losses,
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                },
            )
            interval, history, losses = (done, time.perf_counter() - start), history + losses, []


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError) as error:
        sys.exit(f"train.py: {error}")
