#include "device/await.h"

#include <algorithm>
#include <thread>

namespace weir::device {
namespace {

constexpr int kSpins = 200;  // asking costs about half a microsecond
constexpr auto kLongestNap = std::chrono::microseconds(50);

}  // namespace

base::Status await(Device& device, const Event& event, std::chrono::nanoseconds patience) {
  auto started = std::chrono::steady_clock::now();
  auto nap = std::chrono::microseconds(5);
  for (int asked = 0;; ++asked) {
    auto progress = device.progress(event);
    if (!progress) return progress.error();
    if (*progress == Device::Progress::kDone) return {};
    if (asked < kSpins) continue;
    if (std::chrono::steady_clock::now() - started > patience) {
      auto seconds = std::chrono::duration_cast<std::chrono::seconds>(patience).count();
      device.fail(base::failure(base::Code::kUnavailable,
                                device.info().id + " has not answered for " + std::to_string(seconds) + " s: it hangs"),
                  Device::Cure::kNone);
      return device.fault();
    }
    std::this_thread::sleep_for(nap);
    nap = std::min(nap * 2, kLongestNap);
  }
}

}  // namespace weir::device
