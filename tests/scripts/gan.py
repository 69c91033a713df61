"""DCGAN-style loop: a discriminator step, then a generator step."""
import argparse
import os

import torch
import torch.nn as nn
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--niter", type=int, default=2)
parser.add_argument("--nz", type=int, default=16)
parser.add_argument("--outf", default="samples")
opt = parser.parse_args()
os.makedirs(opt.outf, exist_ok=True)
torch.manual_seed(999)
device = torch.device("cpu")

images = torch.tensor(load_digits().images, dtype=torch.float32).flatten(1) / 8 - 1
dataloader = DataLoader(TensorDataset(images), batch_size=64, shuffle=True, num_workers=0)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(nn.Linear(opt.nz, 64), nn.BatchNorm1d(64), nn.ReLU(True), nn.Linear(64, 64), nn.Tanh())

    def forward(self, input):
        return self.main(input)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(nn.Linear(64, 64), nn.LeakyReLU(0.2, inplace=True), nn.Linear(64, 1))

    def forward(self, input):
        return self.main(input).squeeze(1)


netG, netD = Generator().to(device), Discriminator().to(device)
criterion = nn.BCEWithLogitsLoss()
fixed_noise = torch.randn(64, opt.nz, device=device)
optimizerD = torch.optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))
optimizerG = torch.optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))

for epoch in range(opt.niter):
    for i, (real,) in enumerate(dataloader, 0):
        # (1) update D: maximise log(D(x)) + log(1 - D(G(z)))
        netD.zero_grad()
        label = torch.ones(real.size(0), device=device)
        errD_real = criterion(netD(real.to(device)), label)
        errD_real.backward()
        fake = netG(torch.randn(real.size(0), opt.nz, device=device))
        errD_fake = criterion(netD(fake.detach()), label.fill_(0.0))
        errD_fake.backward()
        errD = errD_real + errD_fake
        optimizerD.step()
        # (2) update G: maximise log(D(G(z)))
        netG.zero_grad()
        errG = criterion(netD(fake), label.fill_(1.0))
        errG.backward()
        optimizerG.step()
        print("[%d/%d][%d/%d] Loss_D: %r Loss_G: %r" % (epoch, opt.niter, i, len(dataloader), errD.item(), errG.item()))
        if i % 100 == 0:
            torch.save(netG(fixed_noise).detach(), "%s/fake_samples_epoch_%03d.pt" % (opt.outf, epoch))
    torch.save(netG.state_dict(), "%s/netG_epoch_%d.pth" % (opt.outf, epoch))
