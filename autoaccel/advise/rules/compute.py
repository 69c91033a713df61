"""Rules about the model, its operators and its optimizer."""

from __future__ import annotations

from autoaccel.advise.bounds import bound_of_share
from autoaccel.advise.observations import SHORTEST_STEP, Gain, Observations, Rule, make_finding
from autoaccel.advise.reach import bound_of_compiling, bound_of_layout, bound_of_sixteen_bits, bound_of_update
from autoaccel.advise.rules.precision import reduced_precision
from autoaccel.advise.rules.python import gradient_functions, line_share, reading_functions
from autoaccel.records.profile import Finding
from autoaccel.space.knobs.extension import IPEX
from autoaccel.space.knobs.model import SPARSITIES

_MANY_CALLS = 200  # operators per step: fewer cost less than a millisecond to launch
_SMALL_SECONDS = 10e-6  # own time of a call: launching one from Python costs about 5 microseconds (PyTorch's own
# overhead benchmarks), so that of a shorter operator most is overhead
_OVERHEAD = 0.4  # share of the step
_TINY_BATCH = 8  # samples, of which a register of AVX-512 holds 16 float32
_PER_STEP = 0.2  # share of the step that does not grow with the batch
_NOTICEABLE = 0.03
_SAID = 0.0  # what another finding says more precisely is worth no second line
_MANY_TENSORS = 20  # parameters: for fewer, passing over them one by one costs little
_ODD = 0.2  # of the parameters
_PADDED = 8  # multiples of 8 in 16-bit types: NVIDIA's guide to matrix multiplication; AMX tiles: pairs of 16 columns


def dense_compute(observed: Observations) -> Finding | None:
    """Convolutions, matrix products and attention take the time."""
    # A shorter type changes every operator around them too (less memory to move).
    return make_finding(
        "dense-compute",
        f"convolutions, matrix products and attention take {observed.dense:.1%} of the step; a shorter type affects "
        f"all of forward and backward ({observed.compute:.1%})",
        Gain(
            observed.compute,
            removable=_SAID if reduced_precision(observed) else 0.3,
            bound_speedup=bound_of_sixteen_bits(observed),
        ),
        "A shorter floating-point type speeds these up, and halves the data that the operators between them move.",
        knobs=("precision.autocast", "precision.float32_matmul"),
    )


def wide_layers(observed: Observations) -> Finding | None:
    """What smaller layers would leave."""
    share = observed.compute + observed.update
    kept = (1 - max(SPARSITIES)) ** 2  # of the weights between two layers that keep so many of their channels
    return make_finding(
        "wide-layers",
        f"forward, backward and the update, {share:.1%} of the step, grow with the square of the layers' widths",
        # How narrow a model may be, only its metric tells.
        Gain(share, removable=0.01, bound_speedup=bound_of_share(share * (1 - kept))),
        "Use fewer channels where the task does not need them.",
        knobs=("model.sparsity",),
    )


def extension(observed: Observations) -> Finding | None:
    """What Intel's extension replaces."""
    if IPEX not in observed.machine.packages:
        return None
    share = observed.compute + observed.update
    return make_finding(
        "extension",
        f"{IPEX} can replace the operators and the update, {share:.1%} of the step",
        Gain(share, removable=0.2),
        "With bfloat16, it lays out the weights for that type.",
        knobs=("ipex.optimize",),
    )


def forward_backward(observed: Observations) -> Finding | None:
    """What a compiler could fuse."""
    return make_finding(
        "forward-backward",
        f"forward and backward take {observed.compute:.1%} of the step, {observed.compute - observed.dense:.1%} "
        "outside of convolutions, matrix products and attention",
        Gain(observed.compute, removable=0.2, bound_speedup=bound_of_compiling(observed)),
        "torch.compile fuses small operators; the run must be long enough to repay the compilation.",
        knobs=("compile.mode", "compile.backend", "compile.dynamic", "compile.region"),
    )


def optimizer(observed: Observations) -> Finding | None:
    """The optimizer's share, whatever its form."""
    share = observed.update
    return make_finding(
        "optimizer",
        f"the optimizer takes {share:.1%} of the step",
        Gain(share, removable=_SAID if optimizer_loop(observed) else 0.4, bound_speedup=bound_of_update(observed)),
        "A fused optimizer makes a single pass over the parameters.",
        knobs=("optimizer.fused", "optimizer.foreach", "compile.optimizer"),
    )


def optimizer_loop(observed: Observations) -> Finding | None:
    """The optimizer goes over the parameters one by one, with several operators for each."""
    conditions = observed.conditions
    if conditions is None or conditions.optimizer.fused or conditions.optimizer.foreach:
        return None
    tensors, share = conditions.model.parameter_tensors, observed.update
    if tensors < _MANY_TENSORS or share < _NOTICEABLE:
        return None
    return make_finding(
        "optimizer-loop",
        f"{conditions.optimizer.kind} updates {tensors} tensors one by one: {share:.1%} of the step",
        Gain(share, removable=0.6, bound_speedup=bound_of_update(observed)),
        "Pass fused=True if its class supports it, otherwise foreach=True.",
        knobs=("optimizer.fused", "optimizer.foreach", "compile.optimizer"),
        numbers={"parameter_tensors": tensors},
    )


def attention(observed: Observations) -> Finding | None:
    """Attention's share."""
    share = observed.compute * observed.groups("attention")
    return make_finding(
        "attention",
        f"scaled dot-product attention takes {share:.1%} of the step",
        Gain(share, removable=0.2),
        "Its kernels differ most on long sequences.",
        knobs=("model.attention",),
    )


def attention_math(observed: Observations) -> Finding | None:
    """Attention is made of single operators instead of one kernel that never writes the scores to memory."""
    if not any("scaled_dot_product_attention_math" in name for name in observed.profile.operator_names):
        return None
    # Its products and its softmax are operators of their own then.
    share = observed.compute * observed.groups("attention", "softmax and loss", "matmul")
    if share < _NOTICEABLE:
        return None
    return make_finding(
        "attention-math",
        "attention runs as separate operators (the math kernel) that write all scores to memory",
        Gain(share, removable=0.2),
        "Let torch choose the kernel, and give it inputs that the flash kernel supports: no float mask, no float64.",
        knobs=("model.attention",),
    )


def small_operators(observed: Observations) -> Finding | None:
    """So many small operators that launching them is the work."""
    profile = observed.profile
    calls, seconds, large = (
        profile.operator_calls_per_step,
        profile.operator_seconds,
        profile.large_operator_seconds,
    )
    if calls is None or seconds is None or large is None or calls < _MANY_CALLS or seconds > _SMALL_SECONDS:
        return None
    step_seconds = min(profile.step_seconds, profile.traced_step_seconds or profile.step_seconds)
    step_seconds = max(step_seconds, SHORTEST_STEP)
    # What is known to be something else's doing is no other cause's as well.
    others = line_share([*reading_functions(observed), *gradient_functions(observed)])
    share = 1 - observed.data_wait - observed.phases("host to device") - large / step_seconds - others
    if share < _OVERHEAD:
        return None
    return make_finding(
        "small-operators",
        f"{calls:,.0f} operators of {seconds * 1e6:.2g} µs each make up the step: launching them dominates",
        Gain(share, removable=0.7),
        "Do the same work on larger tensors: stack what a loop handles one by one, use larger batches, or "
        "torch.compile.",
        knobs=("compile.mode", "compile.region"),
        numbers={"operator_calls": calls, "operator_seconds": seconds, "large_operator_seconds": large},
    )


def tiny_batch(observed: Observations) -> Finding | None:
    """Most of a step does not depend on how many samples it sees."""
    conditions = observed.conditions
    larger_batch = conditions.larger_batch if conditions else None
    if conditions is None or larger_batch is None or conditions.batch_samples > _TINY_BATCH:
        return None
    # Of a step on k batches at once, what each further one adds.
    growing = max(0.0, (larger_batch.larger_seconds - larger_batch.step_seconds) / (larger_batch.factor - 1))
    samples = conditions.samples
    loading = samples.seconds * conditions.batch_samples if samples else 0.0
    share = 1 - (growing + loading) / observed.mean_step_seconds
    if share < _PER_STEP:
        return None
    return make_finding(
        "tiny-batch",
        f"batches of {conditions.batch_samples:.0f}: {share:.0%} of a step does not depend on the number of samples",
        Gain(share, removable=0.95),
        "Use larger batches: samples per second grow, but the learning rate must be adapted.",
        knobs=("optimizer.batch_factor",),
        numbers={
            "batch_samples": conditions.batch_samples,
            "factor": larger_batch.factor,
            "step_seconds": larger_batch.step_seconds,
            "larger_seconds": larger_batch.larger_seconds,
        },
    )


def norm_biases(observed: Observations) -> Finding | None:
    """Biases that batch normalisation subtracts again."""
    training = observed.training
    if training is None or not training.biases_before_norm:
        return None
    # Adding a bias and summing its gradient pass over the activations twice; normalising them, forward and backward,
    # passes over them five times.
    share = 0.4 * observed.compute * observed.groups("normalisation")
    if share < _NOTICEABLE:
        return None
    return make_finding(
        "norm-biases",
        f"{training.biases_before_norm} biases are added only for batch normalisation to subtract them again",
        Gain(share, removable=0.5),
        "Create these layers with bias=False.",
        knobs=("model.norm_biases",),
        numbers={"biases": training.biases_before_norm},
    )


def graph_breaks(observed: Observations) -> Finding | None:
    """A compiled model goes back to Python in between."""
    conditions = observed.conditions
    if conditions is None or not conditions.model.graph_breaks:
        return None
    breaks = conditions.model.graph_breaks
    return make_finding(
        "graph-breaks",
        f"torch.compile broke the model's graph {breaks} times ({conditions.model.graphs} graphs)",
        Gain(observed.compute, removable=0.1),
        "TORCH_LOGS=graph_breaks shows where: usually at .item(), print and calls into other libraries.",
        knobs=("compile.fullgraph",),
        numbers={"graph_breaks": breaks, "graphs": conditions.model.graphs},
    )


def no_compiler(observed: Observations) -> Finding | None:
    """torch.compile cannot work on this CPU."""
    if observed.machine.compiler is not None or observed.on_gpu or observed.conditions is None:
        return None
    return make_finding(
        "no-compiler",
        "there is no C++ compiler, which torch.compile needs on a CPU",
        Gain(observed.compute, removable=0.05),
        "apt install g++",
    )


def data_parallel(observed: Observations) -> Finding | None:
    """DataParallel copies the model to every GPU in each step."""
    conditions = observed.conditions
    if conditions is None or not conditions.model.has_data_parallel:
        return None
    return make_finding(
        "data-parallel",
        "torch.nn.DataParallel copies the model and gathers the outputs in each step, in one Python process",
        Gain(observed.compute, removable=0.2),
        "Use DistributedDataParallel with one process per GPU, as PyTorch's documentation recommends; on a CPU, "
        "remove it.",
    )


def odd_sizes(observed: Observations) -> Finding | None:
    """Sizes of layers that matrix units have to pad."""
    conditions = observed.conditions
    if conditions is None or conditions.model.odd_share < _ODD:
        return None
    has_units = observed.on_gpu or "amx_bf16" in observed.machine.cpu.features
    reduced = conditions.autocast or not conditions.model.dtypes.keys() <= {"float32", "float64"}
    share = 0.5 * observed.dense * conditions.model.odd_share  # padded to the next multiple, no size doubles
    if not has_units or not reduced or share < _NOTICEABLE:
        return None
    return make_finding(
        "odd-sizes",
        f"{conditions.model.odd_share:.0%} of the parameters are in layers whose sizes are not multiples of {_PADDED}",
        Gain(share, removable=0.3),
        f"Round channels, features and vocabulary up to multiples of {_PADDED}.",
        numbers={"odd_share": conditions.model.odd_share},
    )


def channels_first(observed: Observations) -> Finding | None:
    """Convolutions whose kernels work channels last get channels first."""
    conditions, training = observed.conditions, observed.training
    share = observed.dense_share("convolution")
    if not share or (training is not None and not training.has_image_convolutions):
        return None
    if conditions is not None and conditions.model.channels_last:
        return None
    return make_finding(
        "channels-first",
        f"convolutions take {share:.0%} of the step, and their images are stored channel by channel",
        Gain(observed.compute, removable=0.2, bound_speedup=bound_of_layout(observed)),
        "Use model.to(memory_format=torch.channels_last), and convert the images too; it helps most with "
        "bfloat16 or float16.",
        knobs=("layout.channels_last",),
        numbers={"convolution_share": share},
    )


RULES: dict[str, Rule] = {
    "dense-compute": dense_compute,
    "wide-layers": wide_layers,
    "extension": extension,
    "forward-backward": forward_backward,
    "optimizer": optimizer,
    "optimizer-loop": optimizer_loop,
    "attention": attention,
    "attention-math": attention_math,
    "small-operators": small_operators,
    "tiny-batch": tiny_batch,
    "norm-biases": norm_biases,
    "graph-breaks": graph_breaks,
    "no-compiler": no_compiler,
    "data-parallel": data_parallel,
    "odd-sizes": odd_sizes,
    "channels-first": channels_first,
}
