#include "base/overload.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace weir::base {
namespace {

constexpr uint64_t kSlackPercent = 5;
constexpr std::string_view kReason = "SERVER_OVERLOADED";

// The bytes that are so many percent, rounded up; without passing 64 bits.
uint64_t percent_of(uint64_t budget, uint64_t percent) {
  return budget / 100 * percent + (budget % 100 * percent + 99) / 100;
}

}  // namespace

Overload overload_step(const OverloadShares& shares, Overload now, uint64_t held, uint64_t budget) {
  const std::array<uint32_t, 4> percents{shares.shrink, shares.close, shares.refuse, shares.stop};
  // Asked for every call, and nearly always of a server at ease.
  const uint32_t lowest = *std::min_element(percents.begin(), percents.end());
  if (now == Overload::kNone && (lowest > 100 || held < budget / 100 * lowest)) return now;
  auto step = Overload::kNone;
  for (size_t i = 0; i < percents.size(); ++i) {
    const auto above = Overload(i + 1);
    const uint64_t slack = now >= above && percents[i] > kSlackPercent ? kSlackPercent : 0;
    if (percents[i] <= 100 && held >= percent_of(budget, percents[i] - slack)) step = above;
  }
  return step;
}

// Serialized messages that are joined are one message, whose `details` are those of both.
Status overloaded(std::string text) {
  Status status = explained(Code::kResourceExhausted, text, kReason);
  status.details += try_again(Code::kResourceExhausted, std::move(text)).details;
  return status;
}

int http_status(const Status& status) {
  bool ours = status.code == Code::kResourceExhausted && status.details.find(kReason) != std::string::npos;
  return ours ? 503 : http_status(status.code);
}

}  // namespace weir::base
