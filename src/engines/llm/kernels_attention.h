// Part of kernels_body.h: softmax(q k) v over paged keys and values, kAttentionChunk positions at a time.
//
// Chunks begin at multiples of kAttentionChunk, whatever the query, and a query's maximum, sum and output change from
// chunk to chunk in the same way alone and beside others: positions that it does not see weigh exactly nothing.

struct Span {
  uint32_t from, to;  // positions in the chunk that a query sees
};

inline Span seen(const Attention& d, uint32_t query, uint32_t chunk) {
  uint32_t position = d.position + query;
  uint32_t first = d.window > 0 && position + 1 > d.window ? position + 1 - d.window : 0;
  uint32_t from = first > chunk ? first - chunk : 0;
  uint32_t to = position >= chunk ? position - chunk + 1 : 0;
  return {from < kAttentionChunk ? from : kAttentionChunk, to < kAttentionChunk ? to : kAttentionChunk};
}

// Turns one row of scores into weights; `highest` and `total` go on from the chunk before, `sum` is scaled along.
template <class N>
void weigh(float* scores, Span span, float scale, float& highest, float& total, float* sum, uint32_t head_dim,
           std::byte* weights) {
  const float nothing = -INFINITY;
  for (uint32_t i = 0; i < span.from; ++i) scores[i] = nothing;
  for (uint32_t i = span.to; i < kAttentionChunk; ++i) scores[i] = nothing;
  float top = nothing;
  if (span.from < span.to) {
    V16 m = all(nothing);
    for (uint32_t i = 0; i < kAttentionChunk; i += 16) {
      V16 s = mul(load(scores + i), all(scale));
      store(scores + i, s);
      m = maximum(m, s);
    }
    top = max_of(m);
  }
  if (!(top > nothing)) {  // sees nothing here
    for (uint32_t i = 0; i < kAttentionChunk; i += 16) N::put(weights, i, all(0));
    return;
  }
  if (top > highest) {
    float factor = highest > nothing ? std::exp(highest - top) : 0;
    for (uint32_t i = 0; i < head_dim; i += 16) store(sum + i, mul(load(sum + i), all(factor)));
    total *= factor;
    highest = top;
  }
  V16 part = all(0);
  for (uint32_t i = 0; i < kAttentionChunk; i += 16) {
    float w[16];
    store(w, exponential(sub(load(scores + i), all(highest))));
    for (uint32_t j = 0; j < 16; ++j)
      if (i + j < span.from || i + j >= span.to) w[j] = 0;
    part = add(part, load(w));
    N::put(weights, i, load(w));
  }
  total += sum_of(part);
}

template <class N>
void attend(const Attention& d) {
  constexpr uint32_t kSize = size_of(N::kForm);
  const uint32_t rows = d.queries * d.group;
  const uint32_t last_position = d.position + d.queries - 1;
  float* scores = d.scratch;
  auto* weights = reinterpret_cast<std::byte*>(scores + kAttentionRows * kAttentionChunk);
  float* sums = scores + 2 * kAttentionRows * kAttentionChunk;
  float* highest = sums + kAttentionRows * d.head_dim;
  float* total = highest + kAttentionRows;
  for (uint32_t i = 0; i < rows * d.head_dim; i += 16) store(sums + i, all(0));
  for (uint32_t r = 0; r < rows; ++r) highest[r] = -INFINITY, total[r] = 0;

  const size_t tile = tile_bytes(N::kForm, d.head_dim), value_panel = size_t(kTile) * kTile * kSize;
  uint32_t first = d.window > 0 && d.position + 1 > d.window ? d.position + 1 - d.window : 0;
  for (uint32_t chunk = first / kAttentionChunk * kAttentionChunk; chunk <= last_position; chunk += kAttentionChunk) {
    uint32_t count = last_position + 1 - chunk < kAttentionChunk ? last_position + 1 - chunk : kAttentionChunk;
    uint32_t tiles = (count + kTile - 1) / kTile;
    const std::byte* at[kAttentionChunk / kTile];
    for (uint32_t t = 0; t < tiles; ++t) {
      uint32_t n = chunk / kTile + t;
      at[t] = d.kv + size_t(d.table[n / d.tiles_per_block]) * d.block_stride + (n % d.tiles_per_block) * tile;
    }
    product<N>({d.q, d.head_dim * kSize, at, rows, tiles, steps_of(N::kForm, d.head_dim), scores, kAttentionChunk,
                Product::Onto::kNothing});
    for (uint32_t r = 0; r < rows; ++r)
      weigh<N>(scores + size_t(r) * kAttentionChunk, seen(d, r / d.group, chunk), d.scale, highest[r], total[r],
               sums + size_t(r) * d.head_dim, d.head_dim, weights + size_t(r) * kAttentionChunk * kSize);
    Product values{weights,    kAttentionChunk * kSize,    nullptr, rows, d.head_dim / 16, 0, sums,
                   d.head_dim, Product::Onto::kWhatIsThere};
    all_panels<N>(
        values, [&](uint32_t s, uint32_t p) { return at[s] + tile / 2 + p * value_panel; }, tiles,
        steps_of(N::kForm, kTile), steps_of(N::kForm, count - (tiles - 1) * kTile));
  }
  for (uint32_t r = 0; r < rows; ++r) {
    float* sum = sums + size_t(r) * d.head_dim;
    V16 share = all(1 / total[r]);
    for (uint32_t i = 0; i < d.head_dim; i += 16) store(sum + i, mul(load(sum + i), share));
    std::byte* out = d.out + (r / d.group) * d.out_stride + size_t(r % d.group) * d.out_dim * kSize;
    uint32_t i = 0;
    for (; i + 16 <= d.out_dim; i += 16) N::put(out, i, load(sum + i));
    if (i < d.out_dim) {  // a head's output ends in the middle of sixteen: the next head's begins there
      std::byte rest[64];
      N::put(rest, 0, load(sum + i));
      std::memcpy(out + i * kSize, rest, (d.out_dim - i) * kSize);
    }
  }
}
