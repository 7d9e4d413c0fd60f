"""Rotary positions and how they are stretched, written from the papers.

    RoPE        J. Su et al.: RoFormer, arXiv 2104.09864. Pairs are (i, i + d/2), as the published weights have them
    linear      S. Chen et al.: Extending Context Window by Positional Interpolation, arXiv 2306.15595
    longrope    Y. Ding et al.: LongRoPE, arXiv 2402.13753, with the factors and the scale of Phi-3's config.json (arXiv 2404.14219)
    yarn        B. Peng et al.: YaRN, arXiv 2309.00071
    llama3      The Llama 3 Herd of Models, arXiv 2407.21783, with the bands of the published config.json files

`config` is a transformer.Config.
"""
import math

import torch


def yarn_frequencies(config, plain, scaling):
    """Between interpolated and plain by how often a pair turns within the length that was trained."""
    dim, factor = config.head_dim, scaling["factor"]
    trained = scaling.get("original_max_position_embeddings") or config.max_positions

    def pair_that_turns(times):
        return dim * math.log(trained / (times * 2 * math.pi)) / (2 * math.log(config.theta))

    low = pair_that_turns(scaling.get("beta_fast") or 32)
    high = pair_that_turns(scaling.get("beta_slow") or 1)
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    if low == high:
        high += 0.001
    ramp = ((torch.arange(dim // 2, dtype=torch.float32) - low) / (high - low)).clamp(0, 1)
    return plain / factor * ramp + plain * (1 - ramp)


def yarn_attention_factor(scaling):
    if scaling.get("attention_factor") is not None:
        return scaling["attention_factor"]

    def scale(weight):
        return 0.1 * weight * math.log(scaling["factor"]) + 1 if scaling["factor"] > 1 else 1.0

    if scaling.get("mscale") and scaling.get("mscale_all_dim"):
        return scale(scaling["mscale"]) / scale(scaling["mscale_all_dim"])
    return scale(1)


def llama3_frequencies(plain, scaling):
    """Short waves as they are, long ones slowed by the factor, a smooth passage between."""
    factor, low, high = scaling["factor"], scaling["low_freq_factor"], scaling["high_freq_factor"]
    turns = scaling["original_max_position_embeddings"] * plain / (2 * math.pi)
    smooth = ((turns - low) / (high - low)).clamp(0, 1)
    return (1 - smooth) * plain / factor + smooth * plain


def plain_frequencies(config, theta):
    return theta ** (-torch.arange(0, config.rotary_dim, 2, dtype=torch.float32) / config.rotary_dim)


def rope_frequencies(config):
    """Angle per position of each pair, and what cosine and sine are multiplied with."""
    plain = plain_frequencies(config, config.theta)
    scaling = config.scaling or {}
    kind = scaling.get("rope_type") or scaling.get("type") or "default"
    if kind == "default":
        return plain, 1.0
    if kind == "linear":
        return plain / scaling["factor"], 1.0
    if kind == "llama3":
        return llama3_frequencies(plain, scaling), 1.0
    if kind == "yarn":
        return yarn_frequencies(config, plain, scaling), yarn_attention_factor(scaling)
    if kind == "longrope":
        trained = config.trained_positions
        far = config.max_positions > trained
        factors = torch.tensor(scaling["long_factor" if far else "short_factor"])
        return plain / factors, math.sqrt(1 + math.log(config.max_positions / trained) / math.log(trained)) if far else 1.0
    raise ValueError(f"rope scaling {kind!r} is not known")


def rotate(x, cosine, sine):
    """The dimensions behind those that there are angles for stay."""
    half = cosine.shape[-1]
    a, b, rest = x[..., :half], x[..., half:2 * half], x[..., 2 * half:]
    return torch.cat((a * cosine - b * sine, b * cosine + a * sine, rest), dim=-1)
