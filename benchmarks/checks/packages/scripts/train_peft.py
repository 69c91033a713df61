"""LoRA by peft on a small GPT-2 with fresh weights, trained by the Trainer of transformers."""

import torch
from peft import LoraConfig, TaskType, get_peft_model
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Tokens(Dataset):
    def __init__(self, samples=320, length=48, words=256):
        self.ids = torch.randint(words, (samples, length), generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        return {"input_ids": self.ids[index], "labels": self.ids[index]}


torch.manual_seed(0)
config = GPT2Config(vocab_size=256, n_positions=64, n_embd=64, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
lora = LoraConfig(task_type=TaskType.CAUSAL_LM, r=8, lora_alpha=32, lora_dropout=0.1, fan_in_fan_out=True)
model = get_peft_model(GPT2LMHeadModel(config), lora)
model.print_trainable_parameters()
arguments = TrainingArguments(
    output_dir="out",
    learning_rate=1e-3,
    per_device_train_batch_size=8,
    gradient_accumulation_steps=2,
    num_train_epochs=15,
    save_strategy="no",
    report_to="none",
    use_cpu=True,
)
Trainer(model=model, args=arguments, train_dataset=Tokens()).train()
