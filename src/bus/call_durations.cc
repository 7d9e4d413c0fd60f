#include "bus/call_durations.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace weir::bus {
namespace {

// Buckets are one microsecond wide below kFine, and from there on 1/32 of the power of two that they are in.
constexpr uint64_t kFine = 64, kSteps = 32;
constexpr int kFirst = 6, kLast = 37;  // powers of two; what is longer than 2^38 µs, three days, counts as that
constexpr size_t kBuckets = kFine + size_t(kLast - kFirst + 1) * kSteps;

size_t bucket_of(uint64_t us) {
  us = std::min(us, (uint64_t(1) << (kLast + 1)) - 1);
  if (us < kFine) return us;
  const int power = int(std::bit_width(us)) - 1;
  return kFine + size_t(power - kFirst) * kSteps + ((us >> (power - 5)) & (kSteps - 1));
}

// The middle of a bucket.
double microseconds(size_t bucket) {
  if (bucket < kFine) return double(bucket);
  const size_t power = kFirst + (bucket - kFine) / kSteps, step = (bucket - kFine) % kSteps;
  const uint64_t width = uint64_t(1) << (power - 5);
  return double((kSteps + step) * width) + double(width - 1) / 2;
}

}  // namespace

struct CallDurations::Recent {
  static constexpr size_t kSlices = 6;
  static constexpr uint64_t kSliceMs = 10'000;
  struct Slice {
    uint64_t number = 0;  // of ten seconds of Unix time
    std::array<std::array<uint32_t, kBuckets>, kParts> counts{};
  };
  std::array<Slice, kSlices> slices{};
};

CallDurations::CallDurations(KeptDurations kept, const std::vector<double>& bounds_ms)
    : recent_(kept == KeptDurations::kQuantiles ? std::make_unique<Recent>() : nullptr) {
  if (!bounds_ms.empty()) answers_.set_bounds(bounds_ms);
}

CallDurations::~CallDurations() = default;

void CallDurations::add(const Call& call, uint64_t at_ms) {
  add({call.whole, call.queue, call.input, call.infer, call.output}, kParts, at_ms);
}

void CallDurations::add_cached(uint64_t whole_ns, uint64_t at_ms) { add({whole_ns}, size_t(Part::kInput), at_ms); }

void CallDurations::add(const std::array<uint64_t, kParts>& ns, size_t parts, uint64_t at_ms) {
  answers_.add(ns[0]);
  if (!recent_) return;
  const uint64_t number = at_ms / Recent::kSliceMs;
  std::lock_guard lock(mutex_);
  auto& slice = recent_->slices[number % Recent::kSlices];
  if (slice.number != number) slice.counts = {}, slice.number = number;
  for (size_t i = 0; i < parts; ++i) ++slice.counts[i][bucket_of(ns[i] / 1000)];
}

std::vector<double> CallDurations::quantiles(Part part, const std::vector<double>& shares, uint64_t now_ms) const {
  std::vector<uint64_t> counts(kBuckets, 0);
  uint64_t all = 0;
  if (recent_) {
    const uint64_t now = now_ms / Recent::kSliceMs;
    std::lock_guard lock(mutex_);
    for (const auto& slice : recent_->slices) {
      if (slice.number + Recent::kSlices <= now || slice.number > now) continue;
      for (size_t i = 0; i < kBuckets; ++i) counts[i] += slice.counts[size_t(part)][i];
    }
  }
  for (uint64_t count : counts) all += count;
  std::vector<double> out;
  for (double share : shares) {
    const auto rank = std::clamp<uint64_t>(uint64_t(std::ceil(share * double(all))), 1, std::max<uint64_t>(all, 1));
    size_t at = 0;
    for (uint64_t below = counts[0]; below < rank && at + 1 < kBuckets;) below += counts[++at];
    out.push_back(all == 0 ? std::numeric_limits<double>::quiet_NaN() : microseconds(at));
  }
  return out;
}

}  // namespace weir::bus
