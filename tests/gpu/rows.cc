// Kernels that go over rows: embedding, norm, SwiGLU, gather, rotary positions.
#include "cached.h"

namespace weir::gpu {
namespace {

using namespace llm::cuda;

void check_norm(Lab& lab, uint32_t tokens, uint32_t hidden) {
  std::string shape = " " + std::to_string(tokens) + "x" + std::to_string(hidden);
  Both stream(lab, some_floats(lab, size_t(tokens) * hidden));
  Both delta(lab, some_bf16(lab, stream.host.size())), weight(lab, some_bf16(lab, hidden));
  Both<Bf16> out(lab, stream.host.size());
  for (bool with : {true, false}) {
    run(lab, &Kernels::add_norm, [&](Side s) {
      return AddNorm{stream.at(s), with ? delta.at(s) : nullptr, weight.at(s), out.at(s), tokens, hidden, 1e-5f};
    });
    lab.check("add_norm" + shape, out.error(lab), kOneStep);
    lab.check("add_norm, the stream" + shape, stream.error(lab), 1e-6);
  }
  run(lab, &Kernels::add_norm, [&](Side s) {
    return AddNorm{stream.at(s), nullptr, weight.at(s), out.at(s), tokens, hidden, 1e-5f, stream.at(s)};
  });
  lab.check("add_norm, into the stream" + shape, stream.error(lab), 1e-5);
  run(lab, &Kernels::add_norm, [&](Side s) {
    return AddNorm{stream.at(s), nullptr, weight.at(s), out.at(s), tokens, hidden, 1e-5f, nullptr, 1};
  });
  lab.check("add_norm, weights less 1" + shape, out.error(lab), kOneStep);
  run(lab, &Kernels::add_norm,
      [&](Side s) { return AddNorm{stream.at(s), nullptr, nullptr, out.at(s), tokens, hidden, 1e-5f}; });
  lab.check("add_norm, without a norm" + shape, out.error(lab), kOneStep);
  Both branch(lab, some_floats(lab, stream.host.size(), 7));
  for (float offset : {0.f, 1.f}) {
    run(lab, &Kernels::add_normed,
        [&](Side s) { return AddNormed{stream.at(s), branch.at(s), weight.at(s), tokens, hidden, 1e-5f, offset}; });
    lab.check("add_normed" + shape, stream.error(lab), 1e-5);
  }
  Both logits(lab, some_floats(lab, stream.host.size(), 20));
  run(lab, &Kernels::soft_cap, [&](Side s) { return SoftCap{logits.at(s), tokens, hidden, 30}; });
  lab.check("soft_cap" + shape, logits.error(lab), 1e-5);
}

void check_norm_whole(Lab& lab, uint32_t tokens, uint32_t queries, uint32_t keys) {
  const uint32_t width = queries + 2 * keys;
  Both bias(lab, some_floats(lab, width));
  Both q_norm(lab, some_bf16(lab, queries)), k_norm(lab, some_bf16(lab, keys));
  for (bool with : {false, true}) {
    Both qkv(lab, some_bf16(lab, size_t(tokens) * width, 3));
    run(lab, &Kernels::norm_whole, [&](Side s) {
      return NormWhole{qkv.at(s), q_norm.at(s), k_norm.at(s), tokens,
                       queries,   keys,         1e-6f,        with ? bias.at(s) : nullptr};
    });
    lab.check("norm_whole " + std::to_string(queries) + " and " + std::to_string(keys), qkv.error(lab), kOneStep);
  }
}

void check_swiglu(Lab& lab, uint32_t tokens, uint32_t width) {
  Both gates(lab, some_bf16(lab, size_t(tokens) * 2 * width, 3));
  Both bias(lab, some_floats(lab, 2 * width));
  Both<Bf16> out(lab, size_t(tokens) * width);
  for (auto kind : {Gate::kSilu, Gate::kGeluTanh, Gate::kClamped})
    for (bool with : {false, true}) {
      run(lab, &Kernels::swiglu,
          [&](Side s) { return SwiGlu{gates.at(s), out.at(s), tokens, width, with ? bias.at(s) : nullptr, kind}; });
      const std::string words = " " + std::to_string(tokens) + "x" + std::to_string(width);
      lab.check("swiglu, gate " + std::to_string(uint32_t(kind)) + words, out.error(lab), kOneStep);
    }
}

void check_picks(Lab& lab, uint32_t tokens, uint32_t hidden) {
  std::string shape = " " + std::to_string(tokens) + "x" + std::to_string(hidden);
  Both table(lab, some_bf16(lab, size_t(tokens) * hidden));
  Both which(lab, some_below(lab, tokens, tokens));
  Both<Bf16> out(lab, table.host.size());
  run(lab, &Kernels::gather, [&](Side s) { return Gather{table.at(s), which.at(s), out.at(s), tokens, hidden}; });
  lab.check("gather" + shape, out.error(lab), 0);
  Both<float> stream(lab, table.host.size());
  run(lab, &Kernels::embed,
      [&](Side s) { return Embed{stream.at(s), table.at(s), which.at(s), tokens, hidden, nullptr, 12}; });
  lab.check("embed" + shape, stream.error(lab), 0);

  Both sampled(lab, some_below(lab, tokens, tokens));
  for (size_t i = 0; i < which.host.size(); i += 2) which.host[i] |= kSampled;
  Both ids(lab, which.host);
  run(lab, &Kernels::embed,
      [&](Side s) { return Embed{stream.at(s), table.at(s), ids.at(s), tokens, hidden, sampled.at(s)}; });
  lab.check("embed, of tokens sampled" + shape, stream.error(lab), 0);

  Both features(lab, some_floats(lab, size_t(2) * hidden));
  Both places(lab, std::vector<uint32_t>{tokens - 1, 0});
  run(lab, &Kernels::patch, [&](Side s) {
    return Patch{stream.at(s), features.at(s), places.at(s), tokens > 1 ? 2u : 1u, hidden};
  });
  lab.check("patch" + shape, stream.error(lab), 0);
}

// `pairs`: dimensions that turn against others, or 0; then weights of norms are stored less 1, too.
void check_rope(Lab& lab, uint32_t tokens, uint32_t heads, uint32_t kv_heads, uint32_t dim, uint32_t pairs = 0,
                KvCodes codes = KvCodes::kNone) {
  std::string shape =
      " " + std::to_string(heads) + "/" + std::to_string(kv_heads) + "x" + std::to_string(dim) + kept_words(codes);
  Both qkv(lab, some_bf16(lab, size_t(tokens) * (heads + 2 * kv_heads) * dim));
  std::vector<float> turns(dim / 2);
  for (size_t i = 0; i < turns.size(); ++i) turns[i] = float(std::pow(500000.0, -2.0 * double(i) / dim));
  std::vector<uint32_t> places(tokens);
  for (uint32_t i = 0; i < tokens; ++i) places[i] = i % 5 == 4 ? kNoSlot : tokens - 1 - i;
  Both frequencies(lab, turns);
  Both positions(lab, some_below(lab, tokens, 8192)), slots(lab, places);
  Cached cache(lab, codes, tokens, {}, kv_heads, dim);
  Both bias(lab, some_floats(lab, size_t(heads + 2 * kv_heads) * dim));
  Both q_norm(lab, some_bf16(lab, dim)), k_norm(lab, some_bf16(lab, dim));
  Both<Bf16> q(lab, size_t(tokens) * heads * dim);
  for (uint32_t with : {0u, 1u, 2u, 3u}) {
    run(lab, &Kernels::rope_store, [&](Side s) {
      RopeStore a{};
      a.qkv = qkv.at(s), a.frequencies = frequencies.at(s), a.positions = positions.at(s), a.slots = slots.at(s);
      a.q = q.at(s);
      cache.put_into(a, s);
      a.tokens = tokens, a.heads = heads, a.kv_heads = kv_heads, a.dim = dim, a.scale = 1.25f;
      a.pairs = pairs;
      if (with & 1) a.bias = bias.at(s);
      if (with & 2) a.q_norm = q_norm.at(s), a.k_norm = k_norm.at(s), a.epsilon = 1e-6f;
      if (pairs > 0) a.offset = 1;
      return a;
    });
    lab.check("rope" + shape, q.error(lab), kOneStep);
    lab.check("rope, keys" + shape, cache.error(lab, 0), one_step(codes));
    lab.check("rope, values" + shape, cache.error(lab, 1), with & 1 ? one_step(codes) : 0);
  }
}

}  // namespace

void check_rows(Lab& lab) {
  bool full = lab.scale == Lab::Scale::kFull;
  for (uint32_t hidden : full ? std::vector<uint32_t>{130, 2048, 4096} : std::vector<uint32_t>{130, 576})
    for (uint32_t tokens : {1u, full ? 67u : 3u}) {
      check_norm(lab, tokens, hidden);
      check_swiglu(lab, tokens, hidden);
      check_picks(lab, tokens, hidden);
    }
  check_norm(lab, 2, 5120);  // more than a block takes at once
  check_norm_whole(lab, 3, 130, 26);
  check_norm_whole(lab, 3, 5120, 1024);
  uint32_t tokens = full ? 33 : 6;
  check_rope(lab, tokens, full ? 32 : 6, full ? 8 : 2, 64);
  check_rope(lab, tokens, full ? 32 : 6, full ? 8 : 2, 128);
  check_rope(lab, tokens, full ? 8 : 3, full ? 8 : 3, 256);
  check_rope(lab, tokens, 3, 1, 20);
  check_rope(lab, tokens, 3, 1, 20, 6);
  check_rope(lab, tokens, 4, 2, 96);
  check_rope(lab, tokens, 4, 2, 128, 48);
  for (auto codes : {KvCodes::kInt8, KvCodes::kFp8}) {
    check_rope(lab, tokens, full ? 32 : 6, full ? 8 : 2, 64, 0, codes);
    check_rope(lab, tokens, 8, 3, 256, 0, codes);
    check_rope(lab, tokens, 3, 1, 20, 6, codes);
    check_rope(lab, tokens, 4, 2, 96, 0, codes);
  }
}

}  // namespace weir::gpu
