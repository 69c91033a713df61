"""Hugging Face's Trainer: a small BERT, with random weights, tells which module of the standard library a text is from."""

import argparse
import glob
import os

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

LENGTH, CLASSES = 128, 8


class Passages(torch.utils.data.Dataset):
    def __init__(self, texts, starts):
        self.texts, self.starts = texts, starts

    def __len__(self):
        return len(self.starts)

    def __getitem__(self, index):
        label, start = self.starts[index]
        tokens = torch.tensor(list(self.texts[label][start : start + LENGTH]))
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": label}


def compute_metrics(found):
    return {"accuracy": float((np.argmax(found.predictions, axis=1) == found.label_ids).mean())}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--bf16", action="store_true")
    args = parser.parse_args()

    files = sorted(glob.glob(os.path.dirname(os.__file__) + "/*.py"), key=os.path.getsize, reverse=True)[:CLASSES]
    texts = [open(file, "rb").read() for file in files]
    rng = np.random.default_rng(0)
    starts = [(label, int(rng.integers(len(texts[label]) - LENGTH))) for label in range(CLASSES) for _ in range(120)]
    rng.shuffle(starts)
    train, held_out = Passages(texts, starts[:800]), Passages(texts, starts[800:])

    config = BertConfig(vocab_size=256, hidden_size=256, num_hidden_layers=4, num_attention_heads=4,
                        intermediate_size=1024, max_position_embeddings=LENGTH, num_labels=CLASSES)
    training = TrainingArguments(
        output_dir="out", num_train_epochs=args.epochs, per_device_train_batch_size=16, learning_rate=3e-4,
        eval_strategy="epoch", save_strategy="epoch", logging_steps=10, bf16=args.bf16, use_cpu=True, seed=7,
    )
    trainer = Trainer(
        model=BertForSequenceClassification(config), args=training, train_dataset=train, eval_dataset=held_out,
        compute_metrics=compute_metrics,
    )
    trainer.train()
    print(trainer.evaluate())


if __name__ == "__main__":
    main()
