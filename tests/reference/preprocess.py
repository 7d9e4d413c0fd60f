"""An image as the vision encoder takes it: RGB over white, resized bilinearly to S x S, -1..1."""
import numpy as np
import torch


def rgb(image):
    """A PIL image to float32 [height, width, 3], 0..255; alpha is laid over white."""
    a = np.asarray(image.convert("RGBA"), dtype=np.float32)
    alpha = a[:, :, 3:] / 255
    return a[:, :, :3] * alpha + 255 * (1 - alpha)


def axis(count, size):
    """Where `size` pixels lie among `count`: half-pixel centres, edges repeated. Lower, upper, weight of the upper."""
    at = (np.arange(size, dtype=np.float32) + np.float32(0.5)) * np.float32(count / size) - np.float32(0.5)
    low = np.floor(at)
    weight = (at - low).astype(np.float32)
    low = low.astype(np.int64)
    return low.clip(0, count - 1), (low + 1).clip(0, count - 1), weight


def resize(pixels, size):
    """[height, width, channels] to [size, size, channels]: four neighbours each, also when shrinking."""
    y0, y1, wy = axis(pixels.shape[0], size)
    x0, x1, wx = axis(pixels.shape[1], size)
    wy, wx = wy[:, None, None], wx[None, :, None]
    top = pixels[y0][:, x0] * (1 - wx) + pixels[y0][:, x1] * wx
    bottom = pixels[y1][:, x0] * (1 - wx) + pixels[y1][:, x1] * wx
    return top * (1 - wy) + bottom * wy


def pixels(image, size):
    """A PIL image to what Transformer.forward takes for one image: [1, 3, size, size]."""
    scaled = resize(rgb(image), size) / np.float32(127.5) - 1
    return torch.from_numpy(np.ascontiguousarray(scaled.transpose(2, 0, 1), dtype=np.float32))[None]
