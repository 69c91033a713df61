"""Deep Q-learning on a small corridor, with a replay buffer and a target network of its own."""
import collections
import random

import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim

Transition = collections.namedtuple("Transition", ("state", "action", "next_state", "reward", "done"))


class Corridor:
    """Walk right to the goal; the floor slips."""

    size = 8

    def reset(self):
        self.at, self.t = 0, 0
        return self._obs()

    def step(self, action):
        move = 1 if action == 1 else -1
        if random.random() < 0.1:
            move = -move
        self.at = min(max(self.at + move, 0), self.size - 1)
        self.t += 1
        done = self.at == self.size - 1 or self.t >= 30
        return self._obs(), 1.0 if self.at == self.size - 1 else -0.02, done

    def _obs(self):
        return np.eye(self.size, dtype=np.float32)[self.at]


class ReplayMemory:
    def __init__(self, capacity):
        self.memory = collections.deque(maxlen=capacity)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, batch_size):
        batch = Transition(*zip(*random.sample(self.memory, batch_size)))
        return [torch.as_tensor(np.array(part)) for part in batch]

    def __len__(self):
        return len(self.memory)


class DQN(nn.Module):
    def __init__(self, n_observations, n_actions):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n_observations, 32), nn.ReLU(), nn.Linear(32, n_actions))

    def forward(self, x):
        return self.layers(x)


EPISODES, BATCH, GAMMA, TAU = 30, 32, 0.97, 0.05
random.seed(5), np.random.seed(5), torch.manual_seed(5)
env, memory = Corridor(), ReplayMemory(2000)
policy_net, target_net = DQN(env.size, 2), DQN(env.size, 2)
target_net.load_state_dict(policy_net.state_dict())
optimizer = optim.AdamW(policy_net.parameters(), lr=3e-3, amsgrad=True)

steps = 0
for episode in range(EPISODES):
    state, done, total = env.reset(), False, 0.0
    while not done:
        eps = max(0.05, 0.9 - steps / 200)
        if random.random() > eps:
            with torch.no_grad():
                action = policy_net(torch.from_numpy(state)[None]).argmax(1).item()
        else:
            action = random.randrange(2)
        next_state, reward, done = env.step(action)
        memory.push(state, action, next_state, np.float32(reward), np.float32(done))
        state, total, steps = next_state, total + reward, steps + 1
        if len(memory) >= BATCH:
            s, a, s2, r, d = memory.sample(BATCH)
            q = policy_net(s).gather(1, a[:, None]).squeeze(1)
            with torch.no_grad():
                target = r + GAMMA * (1 - d) * target_net(s2).max(1).values
            loss = nn.functional.smooth_l1_loss(q, target)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_value_(policy_net.parameters(), 100)
            optimizer.step()
            for t, p in zip(target_net.parameters(), policy_net.parameters()):
                t.data.lerp_(p.data, TAU)
            print("step", steps, "loss", loss.item())
    print("episode", episode, "return", round(total, 2))
