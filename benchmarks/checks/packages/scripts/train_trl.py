"""Supervised fine-tuning by trl of a small Llama with fresh weights, on made text."""

import random

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

random.seed(0)
torch.manual_seed(0)
words = [f"word{number}" for number in range(500)]
vocabulary = {word: number for number, word in enumerate(["<pad>", "<unk>", "<s>", "</s>", *words])}
tokens = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
tokens.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=tokens, pad_token="<pad>", unk_token="<unk>", bos_token="<s>", eos_token="</s>"
)
config = LlamaConfig(
    vocab_size=len(vocabulary), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=2,
    num_key_value_heads=2, max_position_embeddings=128, bos_token_id=2, eos_token_id=3, pad_token_id=0,
)  # fmt: skip
texts = Dataset.from_dict({"text": [" ".join(random.choices(words, k=40)) for _ in range(400)]})
arguments = SFTConfig(
    output_dir="out",
    num_train_epochs=4,
    per_device_train_batch_size=8,
    learning_rate=1e-3,
    max_length=64,
    save_strategy="no",
    report_to="none",
    use_cpu=True,
)
trainer = SFTTrainer(model=LlamaForCausalLM(config), args=arguments, train_dataset=texts, processing_class=tokenizer)
trainer.train()
