"""A detector by ultralytics with fresh weights, trained on made pictures in batches of its nominal size."""

from pathlib import Path

import cv2
import numpy as np
from ultralytics import YOLO

random = np.random.default_rng(0)
root = Path("shapes").absolute()
for part, count in (("train", 128), ("val", 16)):
    for kind in ("images", "labels"):
        (root / kind / part).mkdir(parents=True, exist_ok=True)
    for number in range(count):
        picture = random.integers(0, 60, (64, 64, 3), dtype=np.uint8)
        width, height = random.integers(12, 30, 2)
        left, top = random.integers(0, 64 - width), random.integers(0, 64 - height)
        cv2.rectangle(picture, (left, top), (left + width, top + height), (240, 240, 240), -1)
        cv2.imwrite(str(root / "images" / part / f"{number}.png"), picture)
        box = (left + width / 2, top + height / 2, width, height)
        words = " ".join(f"{value / 64:.4f}" for value in box)
        (root / "labels" / part / f"{number}.txt").write_text(f"0 {words}\n")
(root / "shapes.yaml").write_text(f"path: {root}\ntrain: images/train\nval: images/val\nnames: [box]\n")

YOLO("yolov8n.yaml").train(
    data=str(root / "shapes.yaml"),
    epochs=8,
    batch=64,
    imgsz=32,
    device="cpu",
    workers=0,
    plots=False,
    project="out",
)
