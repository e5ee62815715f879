"""Operations of one step at size ``paper``, against what is published (or follows from shape).

Counted by torch on the meta device, where nothing is computed: a multiplication and an addition
are two. A step is a forward and a backward pass; the latter has two products for each one of the
former, but for the first layer's. Attention counts with all pairs of words, those that a mask
hides included; a recurrent layer, with the products of each of its steps.
"""

import importlib

import pytest
import torch
import yaml
from torch.utils.flop_counter import FlopCounterMode

from tests.backends.world import CONFIGS

FRAMES = 80
"""Of speech, so much is counted: a recurrent layer's steps are alike, and each takes its time."""
FORWARD = {
    # Multiply-adds of one picture, as torchvision's table of its models has them (x 1e9).
    "resnet18": 2 * 1.814e9,
    "resnet50": 2 * 4.089e9,
    "vgg11_bn": 2 * 7.609e9,
    "vgg16": 2 * 15.470e9,
    "vgg19": 2 * 19.632e9,
    "inception3": 2 * 5.713e9,
    "shufflenetv2": 2 * 0.145e9,
    "swin_t": 2 * 4.491e9,
    "alexnet": 2 * 0.714e9,
    # 65.86 billion at 416 x 416 by its authors' table, a multiplication and an addition being two;
    # for 80 classes, where ours has 20: at each of three scales, each place has 3 x 60 outputs less
    # of 1,024, 512 and 256 channels.
    "yolov3": 65.86e9 - 2 * 3 * 60 * (13**2 * 1_024 + 26**2 * 512 + 52**2 * 256),
    # No published table counts matrix products alone: BERT-Base by its shape, 12 layers of width
    # 768 over 128 tokens, each token with 12 x 768^2 weights and two products with every other.
    "bert": 128 * 12 * (2 * 12 * 768**2 + 4 * 128 * 768),
    # The same over 384 tokens of question and text, with two outputs a token.
    "bert_qa": 384 * (12 * (2 * 12 * 768**2 + 4 * 384 * 768) + 2 * 2 * 768),
    # ELECTRA-Base has the shape of BERT-Base (Clark et al., table 6).
    "electra": 384 * (12 * (2 * 12 * 768**2 + 4 * 384 * 768) + 2 * 2 * 768),
    # The smallest GPT-2 (Radford et al., table 2) has it too; here 512 of the 1,024 words that it
    # can see, and each is followed by one of 50,257 (sub-)words.
    "gpt2": 512 * (12 * (2 * 12 * 768**2 + 4 * 512 * 768) + 2 * 768 * 50_257),
    # The base model (Vaswani et al., table 3): 6 and 6 layers of width 512, inside 2,048, 37,000
    # words. 64 words are read and 65 written, the first of which only begins the sentence.
    "transformer": (
        # Of each word read: 4 x 512^2 weights of attention, the two layers inside, and all pairs.
        64 * 6 * (2 * (4 * 512**2 + 2 * 512 * 2_048) + 4 * 64 * 512)
        # Of each word written: the same,
        + 65 * 6 * (2 * (4 * 512**2 + 2 * 512 * 2_048) + 4 * 65 * 512)
        # attention to the words read, which give keys and values,
        + 6 * (65 * 2 * 2 * 512**2 + 64 * 2 * 2 * 512**2 + 4 * 65 * 64 * 512)
        # and which word it is.
        + 65 * 2 * 512 * 37_000
    ),
    # Its paper has a family, so by shape: two convolutions of 11 x 11 and 32 channels, which leave
    # half the frames, and of 161 bins first 81, then 41; seven layers with a GRU (three gates of
    # 800) each way; 28 signs and the blank.
    "deepspeech2": (FRAMES // 2)
    * 2
    * (
        11 * 11 * 32 * (81 + 32 * 41)
        + 2 * 3 * 800 * (32 * 41 + 800)
        + 6 * 2 * 3 * 800 * (800 + 800)
        + 800 * 29
    ),
    # NeuMF as MLPerf has it: layers of 256, 256, 128 and 64 beside 64 factors, whose product by
    # elements is no matrix product; one output of both.
    "ncf": 2 * (256 * 256 + 256 * 128 + 128 * 64 + (64 + 64)),
}
TOLERANCE = 0.02


class AnsweredError(Exception):
    """The network has its outputs: what follows is the loss, which has no matrix products."""


@pytest.fixture(autouse=True)
def without_values(monkeypatch):
    """transformers looks at what a mask hides, unless it is told that there are no values yet."""
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)


def built(name):
    pool = yaml.safe_load((CONFIGS / "workload" / "tiny.yaml").read_text())["pool"]
    module, _, kind = pool[name]["_target_"].rpartition(".")
    workload = getattr(importlib.import_module(module), kind)(size="paper", data="synthetic")
    with torch.device("meta"):
        return workload, workload.build_model(0)


def answered(*_):
    raise AnsweredError


def counted(workload, model, *, backward):
    """Operations of one pass over one sample."""
    batch = {key: value.to("meta") for key, value in workload.samples([0]).items()}
    if "spectrum" in batch:
        batch["spectrum"] = batch["spectrum"][:, :, :FRAMES]
    with FlopCounterMode(display=False) as counter:
        if backward:
            workload.loss(model.train(), batch).backward()
        else:
            # Not every loss can do without values.
            hook = model.eval().register_forward_hook(answered)
            with hook, torch.no_grad(), pytest.raises(AnsweredError):
                workload.loss(model, batch)
    return counter.get_total_flops()


@pytest.mark.parametrize("name", FORWARD)
def test_a_forward_pass_has_the_published_operations(name):
    workload, model = built(name)
    assert counted(workload, model, backward=False) == pytest.approx(FORWARD[name], rel=TOLERANCE)


@pytest.mark.parametrize("name", ["resnet50", "vgg16", "bert"])
@pytest.mark.long
def test_a_step_is_three_forward_passes(name):
    workload, model = built(name)
    forward = counted(workload, model, backward=False)
    step = counted(workload, model, backward=True)
    assert 2.9 * forward < step <= 3 * forward
