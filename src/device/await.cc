#include "device/await.h"

#include <algorithm>
#include <thread>

namespace weir::device {
namespace {

constexpr int kSpins = 200;
constexpr auto kLongestNap = std::chrono::microseconds(50);

}  // namespace

void PollBackoff::wait() {
  if (++asked_ <= kSpins) return;
  std::this_thread::sleep_for(next_);
  next_ = std::min(next_ * 2, kLongestNap);
}

base::Status give_up(Device& device, std::chrono::nanoseconds patience) {
  auto seconds = std::chrono::duration_cast<std::chrono::seconds>(patience).count();
  device.fail(base::failure(base::Code::kUnavailable,
                            device.info().id + " has not answered for " + std::to_string(seconds) + " s: it hangs"),
              Device::Cure::kNone);
  return device.fault();
}

base::Status await(Device& device, const Event& event, std::chrono::nanoseconds patience) {
  auto started = std::chrono::steady_clock::now();
  for (PollBackoff backoff;; backoff.wait()) {
    auto progress = device.progress(event);
    if (!progress) return progress.error();
    if (*progress == Device::Progress::kDone) return {};
    if (std::chrono::steady_clock::now() - started > patience) return give_up(device, patience);
  }
}

}  // namespace weir::device
