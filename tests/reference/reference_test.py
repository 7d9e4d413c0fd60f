#!/usr/bin/python3
"""What must hold of the reference itself, whatever the weights: it is what the token engine is judged by."""
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
try:
    import numpy as np
    import torch

    import preprocess
    import random_model
    import safetensors
    import transformer
    missing = None
except ImportError as error:
    missing = str(error)


def model(family, vision=False, **said):
    said = {**random_model.configuration(family, 'float32', vision), **said}
    made = transformer.Transformer(transformer.Config(said))
    random_model.randomize(made, 1)
    return made.eval()


def ids(count, seed=0):
    return torch.randint(6, 160, (1, count), generator=torch.Generator().manual_seed(seed))


class Reference(unittest.TestCase):
    def near(self, a, b, tolerance=2e-5):
        self.assertLess((a - b).abs().max().item(), tolerance * max(1, b.abs().max().item()))

    def frequencies(self, **scaling):
        return transformer.rope_frequencies(model('llama', rope_scaling=scaling).config)

    @torch.no_grad()
    def test_what_comes_later_changes_nothing_before_it(self):
        for family in random_model.CLASS:
            made, text = model(family), ids(20)
            self.near(made(text[:, :9]), made(text)[:, :9])

    @torch.no_grad()
    def test_rows_of_a_batch_do_not_see_each_other(self):
        made, a, b = model('qwen3'), ids(12, 1), ids(12, 2)
        self.near(made(torch.cat((a, b))), torch.cat((made(a), made(b))))

    @torch.no_grad()
    def test_attention_knows_distances_and_not_places(self):
        config = model('llama').config
        turn = transformer.rope_frequencies(config)[0]
        q, k = torch.randn(2, config.head_dim, generator=torch.Generator().manual_seed(3))

        def score(i, j):
            return (transformer.rotate(q, (turn * i).cos(), (turn * i).sin())
                    @ transformer.rotate(k, (turn * j).cos(), (turn * j).sin()))

        self.near(score(7, 3), score(107, 103))
        self.assertGreater((score(7, 3) - score(7, 4)).abs().item(), 1e-4)

    @torch.no_grad()
    def test_a_sliding_window_forgets_in_each_layer(self):
        text = ids(30)
        other = text.clone()
        other[0, 0] = (other[0, 0] + 1) % 160
        made = model('mistral', sliding_window=4)  # three layers reach back 3 x 3 positions
        before, after = made(text), made(other)
        self.near(before[:, 10:], after[:, 10:])
        self.assertGreater((before[:, 9] - after[:, 9]).abs().max().item(), 1e-6)

    @torch.no_grad()
    def test_heads_of_a_group_share_keys_and_values(self):
        few = model('llama')
        many = model('llama', num_key_value_heads=4)
        weights = few.state_dict()
        for name in weights:
            if 'k_proj' in name or 'v_proj' in name:
                weights[name] = weights[name].view(2, 16, 64).repeat_interleave(2, dim=0).reshape(64, 64)
        many.load_state_dict(weights)
        self.near(many(ids(10)), few(ids(10)))

    def test_a_factor_of_one_scales_nothing(self):
        plain = transformer.rope_frequencies(model('llama').config)[0]
        for kind in ('linear', 'yarn', 'llama3'):
            turn, factor = self.frequencies(rope_type=kind, factor=1.0, original_max_position_embeddings=64,
                                            low_freq_factor=1.0, high_freq_factor=4.0)
            self.near(turn, plain)
            self.assertEqual(factor, 1.0)

    def test_yarn_and_llama3_keep_short_waves_and_stretch_long_ones(self):
        plain = transformer.rope_frequencies(model('llama').config)[0]
        for kind in ('yarn', 'llama3'):
            turn, _ = self.frequencies(rope_type=kind, factor=8.0, original_max_position_embeddings=4096,
                                       low_freq_factor=1.0, high_freq_factor=4.0)
            self.near(turn[0], plain[0])
            ratio = plain / turn
            self.assertTrue((ratio.diff() >= -1e-5).all())
            self.assertGreater(ratio[-1].item(), 1.5)
            self.assertLessEqual(ratio[-1].item(), 8.001)

    def test_yarn_sharpens_attention(self):
        self.assertAlmostEqual(self.frequencies(rope_type='yarn', factor=4.0)[1], 1.1386294361)
        self.assertEqual(self.frequencies(rope_type='yarn', factor=4.0, attention_factor=0.5)[1], 0.5)

    def test_an_unknown_scaling_is_refused(self):
        with self.assertRaisesRegex(ValueError, 'dynamic'):
            self.frequencies(rope_type='dynamic', factor=2.0)

    @torch.no_grad()
    def test_images_stand_where_the_pads_are(self):
        made = model('qwen2', vision=True)
        text = random_model.prompt(made, 30, 1)
        pixels = torch.zeros(1, 3, 16, 16)
        x = made.embed(text, pixels)
        self.near(x[0, 3:19], made.visual(pixels)[0])
        self.near(x[0, 19:], made.embed(text)[0, 19:])

    @torch.no_grad()
    def test_patches_are_taken_channel_by_channel_and_row_by_row(self):
        vision = model('qwen2', vision=True).visual
        seen = []
        vision.patch_embed.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
        pixels = torch.arange(3 * 16 * 16, dtype=torch.float32).view(1, 3, 16, 16)
        vision(pixels)
        self.assertEqual(seen[0].shape, (1, 16, 48))
        self.assertTrue(torch.equal(seen[0][0, 6], pixels[0, :, 4:8, 8:12].reshape(-1)))

    def test_resizing_keeps_flat_pictures_and_averages_pairs(self):
        flat = np.full((7, 5, 3), 99, np.float32)
        self.assertTrue(np.array_equal(preprocess.resize(flat, 16), np.full((16, 16, 3), 99, np.float32)))
        ramp = np.arange(8, dtype=np.float32)[None, :, None].repeat(8, axis=0)
        self.assertTrue(np.allclose(preprocess.resize(ramp, 4)[0, :, 0], [0.5, 2.5, 4.5, 6.5]))
        self.assertTrue(np.allclose(preprocess.resize(ramp, 16)[0, :4, 0], [0, 0.25, 0.75, 1.25]))  # the edge repeats
        for count, size in ((8, 16), (64, 16), (37, 16), (200, 16)):
            noise = np.random.default_rng(1).random((count, count, 3)).astype(np.float32)
            there = torch.nn.functional.interpolate(torch.from_numpy(noise.transpose(2, 0, 1).copy())[None],
                                                    size=(size, size), mode='bilinear', align_corners=False)[0]
            self.near(torch.from_numpy(preprocess.resize(noise, size).transpose(2, 0, 1).copy()), there)

    def test_a_file_holds_what_was_saved(self):
        tensors = {'a': torch.randn(3, 4), 'b': torch.randn(5).bfloat16(), 'c': torch.tensor(7), 'd': torch.empty(0, 2),
                   'e': torch.randn(2, 2).half()}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'x.safetensors')
            self.assertEqual(safetensors.save(path, tensors, {'format': 'pt'}), os.path.getsize(path))
            back = safetensors.load(path)
        self.assertEqual(list(back), list(tensors))
        for name, tensor in tensors.items():
            self.assertEqual((back[name].dtype, back[name].shape), (tensor.dtype, tensor.shape))
            self.assertTrue(torch.equal(back[name], tensor))

    def test_a_random_model_is_what_its_file_says(self):
        for family in random_model.CLASS:
            with tempfile.TemporaryDirectory() as folder:
                random_model.write(folder, random_model.configuration(family, 'bfloat16', True))
                made = transformer.load(folder)
                want = safetensors.load(os.path.join(folder, 'expected.safetensors'))
                with torch.no_grad():
                    logits, states = made(want['ids'][None].long(), want['pixels'], states=True)
                self.near(logits[0], want['logits'])
                self.near(torch.cat(states), want['states'])


if __name__ == '__main__':
    if missing:
        print(f'{missing}\n0 passed, 0 failed, 1 skipped')
        sys.exit(0)
    torch.set_num_threads(1)
    result = unittest.main(exit=False).result
    bad = len(result.failures) + len(result.errors)
    print(f'{result.testsRun - bad} passed, {bad} failed')
    sys.exit(1 if bad else 0)
