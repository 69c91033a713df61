# Wasserstein GAN with gradient penalty: five critic updates for each update of the generator.
import torch
from torch import autograd, nn, optim
from torch.distributions import Categorical, MixtureSameFamily, MultivariateNormal

torch.manual_seed(3)
LATENT, BATCH, CRITIC_ITERS, ITERS, LAMBDA = 4, 64, 5, 30, 10.0
angles = torch.arange(8) * torch.pi / 4
centers = torch.stack([angles.cos(), angles.sin()], dim=1) * 2
target = MixtureSameFamily(Categorical(torch.ones(8)), MultivariateNormal(centers, torch.eye(2).repeat(8, 1, 1) * 0.01))


def mlp(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, outputs))


def gradient_penalty(critic, real, fake):
    alpha = torch.rand(real.size(0), 1)
    mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    scores = critic(mixed)
    gradients = autograd.grad(scores, mixed, torch.ones_like(scores), create_graph=True, retain_graph=True)[0]
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean() * LAMBDA


generator, critic = mlp(LATENT, 2), mlp(2, 1)
opt_g = optim.Adam(generator.parameters(), lr=1e-4, betas=(0.0, 0.9))
opt_c = optim.Adam(critic.parameters(), lr=1e-4, betas=(0.0, 0.9))

for iteration in range(ITERS):
    for p in critic.parameters():
        p.requires_grad = True
    for _ in range(CRITIC_ITERS):
        real = target.sample((BATCH,))
        with torch.no_grad():
            fake = generator(torch.randn(BATCH, LATENT))
        opt_c.zero_grad()
        loss_c = critic(fake).mean() - critic(real).mean() + gradient_penalty(critic, real, fake)
        loss_c.backward()
        opt_c.step()
    for p in critic.parameters():
        p.requires_grad = False  # to save the computation
    opt_g.zero_grad()
    loss_g = -critic(generator(torch.randn(BATCH, LATENT))).mean()
    loss_g.backward()
    opt_g.step()
    print("iteration", iteration, "critic", loss_c.item(), "generator", loss_g.item())
