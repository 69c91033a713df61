"""timm: one of its networks, with its loader, augmentation, optimizer factory, schedule, averages and scaler."""

import argparse
import time
from contextlib import nullcontext

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_digits
from timm.data import Mixup, create_loader
from timm.loss import SoftTargetCrossEntropy
from timm.models import create_model
from timm.optim import create_optimizer_v2
from timm.scheduler import create_scheduler_v2
from timm.utils import AverageMeter, ModelEmaV3, NativeScaler, accuracy, random_seed


class Digits(torch.utils.data.Dataset):
    def __init__(self, train):
        digits = load_digits()
        part = slice(0, 1400) if train else slice(1400, None)
        self.images = [Image.fromarray(np.uint8(255 * image / 16)).convert("RGB").resize((96, 96))
                       for image in digits.images[part]]
        self.labels = digits.target[part]
        self.transform = None

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index]
        return self.transform(image) if self.transform else image, int(self.labels[index])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--amp", action="store_true")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--workers", type=int, default=0)
    args = parser.parse_args()
    device = torch.device("cpu")
    random_seed(42, 0)

    model = create_model(args.model, pretrained=False, num_classes=10)
    if args.channels_last:
        model = model.to(memory_format=torch.channels_last)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=5e-4, weight_decay=0.05)
    if args.amp:
        amp_autocast, scaler = lambda: torch.autocast("cpu", dtype=torch.bfloat16), None
    else:
        amp_autocast, scaler = nullcontext, NativeScaler() if torch.cuda.is_available() else None
    ema = ModelEmaV3(model, decay=0.99)
    shared = {"input_size": (3, 96, 96), "batch_size": 32, "use_prefetcher": False, "num_workers": args.workers,
              "device": device, "persistent_workers": False}
    loader = create_loader(Digits(True), is_training=True, auto_augment=None, hflip=0.0, **shared)
    loader_eval = create_loader(Digits(False), is_training=False, **shared)
    mixup = Mixup(mixup_alpha=0.2, cutmix_alpha=0.0, num_classes=10)
    loss_fn, val_fn = SoftTargetCrossEntropy(), torch.nn.CrossEntropyLoss()
    schedule, epochs = create_scheduler_v2(
        optimizer, sched="cosine", num_epochs=args.epochs, warmup_epochs=1, updates_per_epoch=len(loader),
        step_on_epochs=False,
    )

    updates = 0
    for epoch in range(epochs):
        model.train()
        losses, start = AverageMeter(), time.time()
        for batch_idx, (input, target) in enumerate(loader):
            if args.channels_last:
                input = input.contiguous(memory_format=torch.channels_last)
            input, target = mixup(input, target)
            with amp_autocast():
                loss = loss_fn(model(input), target)
            optimizer.zero_grad()
            if scaler is not None:
                scaler(loss, optimizer, clip_grad=1.0, parameters=model.parameters())
            else:
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
            updates += 1
            ema.update(model, step=updates)
            losses.update(loss.item(), input.size(0))
            schedule.step_update(num_updates=updates, metric=losses.avg)
            if batch_idx % 10 == 0:
                print(f"Train: {epoch} [{batch_idx:>4d}/{len(loader)}]  Loss: {losses.val:#.3g} ({losses.avg:#.3g})  "
                      f"{(batch_idx + 1) / (time.time() - start):.2f}/s", flush=True)
        model.eval()
        top1 = AverageMeter()
        with torch.no_grad():
            for input, target in loader_eval:
                with amp_autocast():
                    output = model(input)
                top1.update(accuracy(output.float(), target)[0].item(), input.size(0))
        print(f"Test: {epoch}  Acc@1: {top1.avg:.3f}", flush=True)


if __name__ == "__main__":
    main()
