"""A U-Net by MONAI that segments made images, in the loop of its tutorials."""

import torch
from monai.data import CacheDataset, DataLoader, create_test_image_2d
from monai.losses import DiceLoss
from monai.networks.nets import UNet
from monai.transforms import Compose, EnsureChannelFirstd, RandRotate90d, ScaleIntensityd
from monai.utils import set_determinism

set_determinism(seed=0)
files = []
for _ in range(60):
    image, label = create_test_image_2d(48, 48, num_objs=4, rad_max=10, num_seg_classes=1)
    files.append({"image": image, "label": label})
keys = ["image", "label"]
transforms = Compose(
    [
        EnsureChannelFirstd(keys, channel_dim="no_channel"),
        ScaleIntensityd(["image"]),
        RandRotate90d(keys, prob=0.5, spatial_axes=(0, 1)),
    ]
)
train_set = CacheDataset(data=files[:48], transform=transforms, progress=False)
valid_set = CacheDataset(data=files[48:], transform=transforms, progress=False)
train_loader = DataLoader(train_set, batch_size=6, shuffle=True)
valid_loader = DataLoader(valid_set, batch_size=6)
model = UNet(spatial_dims=2, in_channels=1, out_channels=1, channels=(16, 32, 64), strides=(2, 2), num_res_units=2)
loss_function = DiceLoss(sigmoid=True)
optimizer = torch.optim.Adam(model.parameters(), 1e-3)

max_epochs = 30
for epoch in range(max_epochs):
    model.train()
    epoch_loss = 0
    for batch_data in train_loader:
        inputs, labels = batch_data["image"], batch_data["label"]
        optimizer.zero_grad()
        loss = loss_function(model(inputs), labels)
        loss.backward()
        optimizer.step()
        epoch_loss += loss.item()
    if (epoch + 1) % 2 == 0:
        model.eval()
        with torch.no_grad():
            valid_loss = sum(loss_function(model(one["image"]), one["label"]).item() for one in valid_loader)
        print(f"epoch {epoch + 1}: {epoch_loss / len(train_loader):.4f}, {valid_loss / len(valid_loader):.4f}")
