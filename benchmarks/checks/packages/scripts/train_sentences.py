"""A sentence encoder with fresh weights, trained on made pairs by the trainer of sentence-transformers."""

import random
from pathlib import Path

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.losses import MultipleNegativesRankingLoss
from sentence_transformers.models import Pooling, Transformer
from transformers import BertConfig, BertModel, BertTokenizerFast

random.seed(0)
torch.manual_seed(0)
words = [f"word{number}" for number in range(500)]
folder = Path("encoder")
folder.mkdir(exist_ok=True)
(folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]))
BertTokenizerFast(vocab_file=str(folder / "vocab.txt")).save_pretrained(folder)
config = BertConfig(
    vocab_size=505, hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128,
    max_position_embeddings=64,
)  # fmt: skip
BertModel(config).save_pretrained(folder)

encoder = Transformer(str(folder), max_seq_length=32)
model = SentenceTransformer(modules=[encoder, Pooling(64)], device="cpu")
anchors = [random.choices(words, k=12) for _ in range(640)]
pairs = {
    "anchor": [" ".join(one) for one in anchors],
    "positive": [" ".join(random.sample(one, len(one))) for one in anchors],
}
arguments = SentenceTransformerTrainingArguments(
    output_dir="out",
    num_train_epochs=12,
    per_device_train_batch_size=16,
    learning_rate=1e-3,
    save_strategy="no",
    report_to="none",
    use_cpu=True,
)
trainer = SentenceTransformerTrainer(
    model=model, args=arguments, train_dataset=Dataset.from_dict(pairs), loss=MultipleNegativesRankingLoss(model)
)
trainer.train()
