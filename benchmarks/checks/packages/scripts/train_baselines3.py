"""PPO by stable-baselines3 on the cart and its pole."""

from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

environment = make_vec_env("CartPole-v1", n_envs=4, seed=0)
model = PPO("MlpPolicy", environment, n_steps=128, batch_size=64, n_epochs=10, seed=0, verbose=1, device="cpu")
model.learn(total_timesteps=20_000)
