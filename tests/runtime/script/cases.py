"""What is right for each script of tests/scripts."""

from __future__ import annotations

from typing import NamedTuple


class Case(NamedTuple):
    """What is right for a script. Where something is constructed is told by a part of that line."""

    file: str
    models: tuple[tuple[str, int, str], ...]  # class, parameters, where
    optimizers: tuple[tuple[str, str], ...]  # class, where
    fed_by: str = ""  # "TensorDataset 64 RandomSampler"; empty: by no DataLoader
    evaluated_on: str = ""
    batches: int | None = None  # of the loader that feeds it
    cycle: tuple[int, ...] = (0,)
    per_epoch: int | None = None
    planned: int | None = None
    evaluations: bool = True  # whether some of the steps seen have one beside them
    does: tuple[str, ...] = ("seeds torch",)
    arguments: tuple[str, ...] = ()
    stdin: str = ""  # the file beside it that it reads as its standard input
    steps: int = 20  # that are made under the baseline's settings
    lines: int = 5  # of its output that are compared


CASES = [
    Case(
        "stdin/reads_stdin.py",
        models=(("Linear", 15, "model ="),),
        optimizers=(("SGD", "optimizer ="),),
        evaluations=False,
        stdin="settings.json",
    ),
    Case(
        "digits.py",
        models=(("Net", 1199882, "model = Net()"),),
        optimizers=(("Adam", "optimizer ="),),
        fed_by="TensorDataset 64 RandomSampler",
        evaluated_on="TensorDataset 1000 SequentialSampler",
        batches=21,
        per_epoch=21,
        planned=210,
        lines=4,
    ),
    Case(
        "trainer_class.py",
        models=(("ConvNet", 1386, "self.model = ConvNet()"),),
        optimizers=(("SGD", "self.optimizer ="),),
        fed_by="Subset 64 RandomSampler",
        evaluated_on="Subset 64 SequentialSampler",
        batches=24,
        per_epoch=24,
        planned=96,
        evaluations=False,  # the first is after an epoch
    ),
    Case(
        "accumulation.py",
        models=(("Sequential", 1537, "model = nn.Sequential("),),
        optimizers=(("AdamW", "optimizer ="),),
        fed_by="TensorDataset 16 RandomSampler",
        evaluated_on="TensorDataset 256 SequentialSampler",
        batches=64,
        per_epoch=16,
        planned=80,
        does=(
            "accumulates the gradients of 4 backward passes",
            "seeds random",
            "seeds numpy",
            "seeds torch",
            "clips gradients by their norm",
        ),
    ),
    Case(
        "eval_in_loop.py",
        models=(("Classifier", 547, "model = Classifier("),),
        optimizers=(("Adam", "opt = optim.Adam"),),
        fed_by="TensorDataset 16 RandomSampler",
        batches=8,
        per_epoch=8,
        planned=60,
    ),
    Case(
        "amp_scaler.py",
        models=(("Sequential", 3818, "return nn.Sequential("),),
        optimizers=(("RMSprop", "optimizer ="),),
        fed_by="TensorDataset 32 RandomSampler",
        batches=56,
        per_epoch=56,
        planned=112,
        evaluations=False,
        does=(
            "autocast to float16",
            "seeds torch",
            "scales the loss (GradScaler)",
            "clips gradients by their norm",
        ),
    ),
    Case(
        "lstm_lm.py",
        models=(("RNNModel", 10026, "model = RNNModel("),),
        optimizers=(("SGD", "optimizer ="),),
        planned=45,
        does=("seeds torch", "clips gradients by their norm"),
    ),
    Case(
        "gpt/train.py",
        models=(("GPT", 34176, "model = GPT("),),
        optimizers=(("AdamW", "return torch.optim.AdamW("),),
        planned=21,  # it ends once it has made more than these
        arguments=("--max_iters=20",),
        does=(
            "accumulates the gradients of 4 backward passes",
            "seeds torch",
            "clips gradients by their norm",
        ),
    ),
    Case(
        "gan.py",
        models=(
            ("Discriminator", 4225, "netG, netD ="),
            ("Generator", 5376, "netG, netD ="),
        ),
        optimizers=(("Adam", "optimizerD ="), ("Adam", "optimizerG =")),
        fed_by="TensorDataset 64 RandomSampler",
        batches=29,
        cycle=(0, 1),
        per_epoch=29,
        planned=58,
    ),
    Case(
        "siamese.py",
        models=(("EmbeddingNet", 664, "net = EmbeddingNet()"),),
        optimizers=(("NAdam", "optimizer ="),),
        fed_by="Triplets 32 RandomSampler",
        batches=20,
        per_epoch=20,
        planned=40,
        evaluations=False,  # a call without gradients beside every step belongs to it
    ),
    Case(
        "lbfgs.py",
        models=(("Sequence", 733, "seq = Sequence()"),),
        optimizers=(("LBFGS", "optimizer ="),),
        planned=8,
        evaluations=False,
        does=("seeds numpy", "seeds torch"),
    ),
    Case(
        "ema.py",
        models=(("Regressor", 449, "model = Regressor()"),),
        optimizers=(("AdamW", "optimizer ="),),
        fed_by="TensorDataset 32 RandomSampler",
        evaluated_on="TensorDataset 58 SequentialSampler",
        batches=12,
        per_epoch=12,
        planned=48,
    ),
    Case(
        "frozen.py",
        models=(("Net", 1210, "student = Net(16)"),),
        optimizers=(("Adam", "optimizer ="),),
        fed_by="TensorDataset 64 RandomSampler",
        batches=28,
        per_epoch=28,
        planned=84,
        evaluations=False,
    ),
    Case(
        "dqn.py",
        models=(("DQN", 354, "policy_net, target_net ="),),
        optimizers=(("AdamW", "optimizer ="),),
        does=("seeds random", "seeds numpy", "seeds torch", "clips gradients by value"),
    ),
    Case(
        "compiled.py",
        models=(("MLP", 131, "model = MLP()"),),
        optimizers=(("Adam", "optimizer ="),),
        fed_by="TensorDataset 30 RandomSampler",
        batches=5,
        per_epoch=5,
        planned=30,
        evaluations=False,
        does=("torch.compile", "seeds torch"),
    ),
    Case(
        "positional_loader.py",
        models=(("Sequential", 513, "model = nn.Sequential("),),
        optimizers=(("Adagrad", "optimizer ="),),
        fed_by="Cancer 64 BalancedSampler",
        evaluated_on="Cancer 200 SequentialSampler",
        batches=7,
        per_epoch=7,
        planned=35,
        does=("seeds random", "seeds numpy", "seeds torch"),
    ),
    Case(
        "stream.py",
        models=(("Sequential", 948, "model = nn.Sequential("),),
        optimizers=(("SGD", "optimizer ="),),
        fed_by="NoisyWaves 16 _InfiniteConstantSampler",
        planned=200,
        evaluations=False,
    ),
    Case(
        "spawn_workers.py",
        models=(("Linear", 12, "model = nn.Linear("),),
        optimizers=(("SGD", "optimizer ="),),
        fed_by="Linnerud 5 RandomSampler",
        batches=4,
        per_epoch=4,
        planned=48,
        evaluations=False,
        steps=50,  # it begins anew after 48
    ),
    Case(
        "exits.py",
        models=(("Sequential", 385, "model = nn.Sequential("),),
        optimizers=(("Adam", "optimizer ="),),
        fed_by="TensorDataset 34 RandomSampler",
        batches=13,
        per_epoch=13,
        planned=26,
        evaluations=False,
        steps=60,  # it exits after 24
        lines=20,
    ),
    Case(
        "endless.py",
        models=(("GRU", 336, "net = nn.GRU("), ("Linear", 36, "head = nn.Linear(")),
        optimizers=(("Adam", "optimizer ="),),
        does=("seeds torch", "clips gradients by their norm"),
    ),
    Case(
        "checkpoints.py",
        models=(("Tower", 275, "model = Tower()"),),
        optimizers=(("SGD", "optimizer ="),),
        planned=40,
        evaluations=False,  # a checkpoint beside every step belongs to it
    ),
    Case(
        "threads.py",
        models=(("Sequential", 577, "model = torch.nn.Sequential("),),
        optimizers=(("Adam", "optimizer ="),),
        planned=30,
        evaluations=False,
        lines=20,
    ),
    Case(
        "deterministic.py",
        models=(("Sequential", 1058, "model = nn.Sequential("),),
        optimizers=(("Adam", "optimizer ="),),
        fed_by="TensorDataset 64 RandomSampler",
        batches=9,
        per_epoch=9,
        planned=40,
        cycle=(2,),  # of its third training
        evaluations=False,
        does=("seeds random", "seeds numpy", "seeds torch", "asks for deterministic algorithms"),
        lines=20,
    ),
    Case(
        "one_function.py",
        models=(("Sequential", 2410, "model = nn.Sequential("),),
        optimizers=(("SGD", "criterion, optimizer ="),),
        fed_by="Subset 50 RandomSampler",
        evaluated_on="Subset 50 SequentialSampler",
        batches=10,
        per_epoch=10,
        planned=60,
        lines=20,
    ),
    Case(
        "silent.py",
        models=(("Sequential", 162, "net = torch.nn.Sequential("),),
        optimizers=(("Adadelta", "optim ="),),
        fed_by="TensorDataset 32 RandomSampler",
        batches=16,
        per_epoch=16,
        planned=160,
        evaluations=False,
        does=(),
        lines=1,
    ),
    Case(
        "two_phases.py",
        models=(("Model", 6570, "model = Model()"),),
        optimizers=(("AdamW", "optimizer ="),),
        fed_by="TensorDataset 64 RandomSampler",
        batches=29,
        per_epoch=29,
        planned=58,
        evaluations=False,
        steps=70,  # the script begins anew where the second training would
        lines=20,
    ),
    Case(
        "two_phases.py",
        models=(("Model", 6570, "model = Model()"),),
        optimizers=(("AdamW", "optimizer ="),),
        fed_by="TensorDataset 64 RandomSampler",
        batches=29,
        per_epoch=29,
        planned=58,
        evaluations=False,
        arguments=("--head-epochs", "0"),
        lines=20,
    ),
    Case(
        "layer_by_layer.py",  # two trainings, of modules that are not called
        models=(("Layer", 4352, "for layer in [Layer("),),
        optimizers=(("Adam", "self.optimizer ="),),
        planned=200,
        evaluations=False,
        lines=1,
    ),
    Case(
        "replaced.py",
        models=(("Sequential", 65, "return nn.Sequential("),),
        optimizers=(("Adam", "optimizer = torch.optim.Adam(model.parameters(), lr=0.01)"),),
        planned=90,
        evaluations=False,
        steps=70,
        lines=20,
    ),
    Case(
        "shadowing/train.py",
        models=(("Sequential", 1660, "return nn.Sequential("),),
        optimizers=(("SGD", "optimizer ="),),
        fed_by="TensorDataset 32 RandomSampler",
        evaluated_on="TensorDataset 32 SequentialSampler",
        batches=20,
        per_epoch=20,
        planned=60,
        does=("seeds random", "seeds numpy", "seeds torch"),
    ),
    Case(
        "wgan_gp.py",
        models=(("Sequential", 1282, "return nn.Sequential("), ("Sequential", 1185, "return nn.Sequential(")),
        optimizers=(("Adam", "opt_c ="), ("Adam", "opt_g =")),
        cycle=(0, 0, 0, 0, 0, 1),
        planned=30,
        evaluations=False,  # images made without gradients belong to the step
        does=("seeds torch", "differentiates its gradients"),
        lines=3,
    ),
    Case(
        "hand_sgd.py",
        models=(("Sequential", 9610, "model = nn.Sequential("),),
        optimizers=(("updates by hand", "loss.backward()"),),
        fed_by="Subset 64 RandomSampler",
        batches=24,
        per_epoch=24,
        planned=120,
        does=("seeds torch", "clips gradients by their norm"),
    ),
    Case(
        "by_hand.py",
        models=(),
        optimizers=(("updates by hand", "loss.backward()"),),
        evaluations=False,
        lines=0,
    ),
    Case(
        "functional.py",
        models=(("Sequential", 193, "model = nn.Sequential("),),
        optimizers=(("updates by hand", "grads, loss = step("),),
        planned=9_999_996,  # of the first four, nobody had looked for updates that it makes itself
        evaluations=False,
        lines=1,
    ),
]
