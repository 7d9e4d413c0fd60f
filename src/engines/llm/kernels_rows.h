// Part of kernels_body.h: what is done to one row at a time. Rows need not be multiples of 16; outputs are padded.

// The last n < 16 floats of a row, with zeros (or `filler`) after them.
inline V16 load_some(const float* x, uint32_t n, float filler = 0) {
  float f[16];
  for (uint32_t i = 0; i < 16; ++i) f[i] = i < n ? x[i] : filler;
  return load(f);
}

template <class F>
inline void over(size_t n, const float* x, F&& f) {
  size_t i = 0;
  for (; i + 16 <= n; i += 16) f(i, load(x + i), uint32_t(16));
  if (i < n) f(i, load_some(x + i, uint32_t(n - i)), uint32_t(n - i));
}

inline V16 load_upto(const float* x, uint32_t n) { return n == 16 ? load(x) : load_some(x, n); }

template <class N>
void rms_norm(const float* x, const float* weight, float epsilon, uint32_t n, std::byte* out) {
  V16 squares = all(0);
  over(n, x, [&](size_t, V16 v, uint32_t) { squares = fma(v, v, squares); });
  V16 scale = all(1 / std::sqrt(sum_of(squares) / float(n) + epsilon));
  over(n, x, [&](size_t i, V16 v, uint32_t m) { N::put(out, i, mul(mul(v, scale), load_upto(weight + i, m))); });
}

template <class N>
void layer_norm(const float* x, const float* weight, const float* bias, float epsilon, uint32_t n, std::byte* out) {
  V16 sum = all(0), squares = all(0);
  over(n, x, [&](size_t, V16 v, uint32_t) { sum = add(sum, v); });
  float mean = sum_of(sum) / float(n);
  for (uint32_t i = 0; i < n; i += 16) {
    uint32_t m = n - i < 16 ? n - i : 16;
    V16 v = sub(m == 16 ? load(x + i) : load_some(x + i, m, mean), all(mean));
    squares = fma(v, v, squares);
  }
  V16 scale = all(1 / std::sqrt(sum_of(squares) / float(n) + epsilon));
  over(n, x, [&](size_t i, V16 v, uint32_t m) {
    N::put(out, i, fma(mul(sub(v, all(mean)), scale), load_upto(weight + i, m), load_upto(bias + i, m)));
  });
}

template <class N>
void convert(const float* x, uint32_t n, std::byte* out) {
  over(n, x, [&](size_t i, V16 v, uint32_t) { N::put(out, i, v); });
}

template <class N>
void swiglu(const float* x, uint32_t pairs, std::byte* out) {
  for (uint32_t p = 0; p < pairs; ++p) {
    V16 gate = load(x + 32 * p), up = load(x + 32 * p + 16);
    V16 e = exponential(sub(all(0), gate));
    N::put(out, 16 * size_t(p), mul(div(gate, add(all(1), e)), up));
  }
}

template <class N>
void gelu(const float* x, uint32_t n, std::byte* out) {
  over(n, x, [&](size_t i, V16 v, uint32_t) {
    float f[16];
    store(f, v);
    for (float& y : f) y = 0.5f * y * (1 + std::erf(y * 0.70710678f));
    N::put(out, i, load(f));
  });
}

// NaNs do not count: of the two, the registers' maximum is the second if either is one.
float largest(const float* x, size_t n) {
  V16 m = all(-INFINITY);
  size_t i = 0;
  for (; i + 16 <= n; i += 16) m = maximum(load(x + i), m);
  if (i < n) m = maximum(load_some(x + i, uint32_t(n - i), -INFINITY), m);
  return max_of(m);
}

float sum_exp(const float* x, size_t n, float shift) {
  V16 sum = all(0);
  size_t i = 0;
  for (; i + 16 <= n; i += 16) sum = add(sum, exponential(sub(load(x + i), all(shift))));
  float rest = 0;
  for (; i < n; ++i) rest += std::exp(x[i] - shift);
  return sum_of(sum) + rest;
}

void exps(const float* x, size_t n, float shift, float* out) {
  size_t i = 0;
  for (; i + 16 <= n; i += 16) store(out + i, exponential(sub(load(x + i), all(shift))));
  for (; i < n; ++i) out[i] = std::exp(x[i] - shift);
}

float dot(const float* x, const float* y, size_t n) {
  V16 sum = all(0);
  over(n, x, [&](size_t i, V16 v, uint32_t m) { sum = fma(v, load_upto(y + i, m), sum); });
  return sum_of(sum);
}
