#include "device/await.h"

#include <sys/prctl.h>

#include <algorithm>
#include <thread>

namespace weir::device {
namespace {

constexpr int kSpins = 200;
constexpr std::chrono::nanoseconds kShortestPause{2'000}, kLongestPause{50'000};
constexpr int kPauses = 64;  // of a wait

void have_exact_timers() {
  thread_local const bool set = ::prctl(PR_SET_TIMERSLACK, 1UL) == 0;
  (void)set;
}

}  // namespace

std::chrono::nanoseconds PollBackoff::pause(std::chrono::nanoseconds waited) {
  return std::clamp(waited / kPauses, kShortestPause, kLongestPause);
}

void PollBackoff::wait() {
  if (asked_++ == 0) since_ = std::chrono::steady_clock::now();
  if (asked_ <= kSpins) return;
  have_exact_timers();
  std::this_thread::sleep_for(pause(std::chrono::steady_clock::now() - since_));
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
