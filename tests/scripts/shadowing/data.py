import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset


def get_loaders(batch_size):
    digits = load_digits(n_class=4)
    images, labels = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
    train, test = TensorDataset(images[:640], labels[:640]), TensorDataset(images[640:], labels[640:])
    return DataLoader(train, batch_size, shuffle=True), DataLoader(test, batch_size)
