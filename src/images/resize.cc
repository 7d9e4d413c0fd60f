#include "images/resize.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace weir::images {
namespace {

constexpr int kPrecision = 32 - 8 - 2;  // bits behind the point: Pillow's
constexpr size_t kChannels = 3;

double sinc(double x) { return x == 0 ? 1 : std::sin(x * std::numbers::pi) / (x * std::numbers::pi); }

double bicubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

double weight(Filter filter, double x) {
  if (filter == Filter::kBicubic) return bicubic(x);
  if (filter == Filter::kLanczos) return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0;
  return std::max(0.0, 1 - std::abs(x));
}

double support(Filter filter) { return filter == Filter::kBilinear ? 1 : filter == Filter::kBicubic ? 2 : 3; }

// For each pixel of a line: the first one under the filter, how many there are, and their weights.
struct Line {
  struct Place {
    uint32_t first = 0, count = 0;
    size_t weights = 0;
  };
  std::vector<Place> places;
  std::vector<int32_t> weights;
};

Line make_line(uint32_t in, uint32_t out, Filter filter) {
  const double scale = double(in) / out, wide = std::max(scale, 1.0), reach = support(filter) * wide;
  Line line;
  line.places.resize(out);
  std::vector<double> exact;
  for (uint32_t i = 0; i < out; ++i) {
    const double center = (i + 0.5) * scale;
    const auto from = uint32_t(std::max(0.0, center - reach + 0.5));
    const auto to = uint32_t(std::min(double(in), center + reach + 0.5));
    exact.assign(to - from, 0);
    double sum = 0;
    for (uint32_t x = from; x < to; ++x) sum += exact[x - from] = weight(filter, (x - center + 0.5) / wide);
    line.places[i] = {from, to - from, line.weights.size()};
    for (double w : exact) {
      const double fixed = (sum != 0 ? w / sum : w) * (1 << kPrecision);
      line.weights.push_back(int32_t(fixed + (fixed < 0 ? -0.5 : 0.5)));
    }
  }
  return line;
}

uint8_t rounded(int64_t sum) { return uint8_t(std::clamp<int64_t>(sum >> kPrecision, 0, 255)); }

// One pixel: the weighted sum of those at `from`, `step` bytes from each other.
void mix(const Line& line, const Line::Place& place, const uint8_t* from, size_t step, uint8_t* to) {
  int64_t sum[kChannels];
  std::fill_n(sum, kChannels, int64_t(1) << (kPrecision - 1));
  const int32_t* weights = line.weights.data() + place.weights;
  for (uint32_t i = 0; i < place.count; ++i, from += step)
    for (size_t c = 0; c < kChannels; ++c) sum[c] += int64_t(from[c]) * weights[i];
  for (size_t c = 0; c < kChannels; ++c) to[c] = rounded(sum[c]);
}

Picture empty(uint32_t width, uint32_t height) {
  Picture out{width, height, {}};
  out.rgb.resize(size_t(width) * height * kChannels);
  return out;
}

Picture stretch_rows(const Picture& in, uint32_t width, Filter filter) {
  Picture out = empty(width, in.height);
  const Line line = make_line(in.width, width, filter);
  for (uint32_t y = 0; y < in.height; ++y) {
    const uint8_t* from = in.rgb.data() + size_t(y) * in.width * kChannels;
    uint8_t* to = out.rgb.data() + size_t(y) * width * kChannels;
    for (const auto& place : line.places) {
      mix(line, place, from + size_t(place.first) * kChannels, kChannels, to);
      to += kChannels;
    }
  }
  return out;
}

Picture stretch_columns(const Picture& in, uint32_t height, Filter filter) {
  Picture out = empty(in.width, height);
  const Line line = make_line(in.height, height, filter);
  const size_t row = size_t(in.width) * kChannels;
  uint8_t* to = out.rgb.data();
  for (const auto& place : line.places)
    for (uint32_t x = 0; x < in.width; ++x, to += kChannels)
      mix(line, place, in.rgb.data() + place.first * row + size_t(x) * kChannels, row, to);
  return out;
}

// The pixel that the centre lies in.
Picture nearest(const Picture& in, uint32_t width, uint32_t height) {
  Picture out = empty(width, height);
  const double across = double(in.width) / width, down = double(in.height) / height;
  uint8_t* to = out.rgb.data();
  for (uint32_t y = 0; y < height; ++y) {
    const auto from_y = std::min(uint32_t((y + 0.5) * down), in.height - 1);
    const uint8_t* row = in.rgb.data() + size_t(from_y) * in.width * kChannels;
    for (uint32_t x = 0; x < width; ++x, to += kChannels)
      std::copy_n(row + size_t(std::min(uint32_t((x + 0.5) * across), in.width - 1)) * kChannels, kChannels, to);
  }
  return out;
}

}  // namespace

Picture resize(const Picture& picture, uint32_t width, uint32_t height, Filter filter) {
  if (width == picture.width && height == picture.height) return picture;
  if (filter == Filter::kNearest) return nearest(picture, width, height);
  if (width == picture.width) return stretch_columns(picture, height, filter);
  Picture rows = stretch_rows(picture, width, filter);
  return height == picture.height ? rows : stretch_columns(rows, height, filter);
}

Picture crop(const Picture& picture, int64_t left, int64_t top, uint32_t width, uint32_t height) {
  Picture out = empty(width, height);
  const int64_t from = std::max<int64_t>(left, 0), to = std::min<int64_t>(left + width, picture.width);
  for (int64_t y = std::max<int64_t>(top, 0); from < to && y < std::min<int64_t>(top + height, picture.height); ++y)
    std::copy_n(picture.rgb.data() + (size_t(y) * picture.width + size_t(from)) * kChannels,
                size_t(to - from) * kChannels,
                out.rgb.data() + (size_t(y - top) * width + size_t(from - left)) * kChannels);
  return out;
}

}  // namespace weir::images
