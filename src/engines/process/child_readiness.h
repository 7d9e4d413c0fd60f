// ChildReadiness: asks a child whether its model is ready (protocol.h, kIsReady). One question is under way at a time;
// whoever asks meanwhile gets its answer, as with Triton. A child that never answers has that one question.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msg/readiness_probe.h"

namespace weir::process {

class ChildReadiness final : public msg::ReadinessProbe {
 public:
  static constexpr size_t kMostWaiting = 1024;  // shards ask once each, and other models
  static constexpr size_t kLongestWhy = 512;    // bytes

  // Sends the question of that number, and does not wait. False: the child does not read, or is gone.
  using Send = std::function<bool(uint64_t number)>;
  ChildReadiness(std::string model, Send send) : model_(std::move(model)), send_(std::move(send)) {}

  void ask(Done done) override;
  bool busy() const override { return work_.load(std::memory_order_relaxed) == Work::kRuns; }
  // Whether the child has requests that it has not answered. Any thread.
  enum class Work : uint8_t { kNone, kRuns };
  void set_work(Work work) { work_.store(work, std::memory_order_relaxed); }
  // kReadiness has come. One that nobody has asked for is dropped.
  void answered(uint64_t number, bool ready, std::string_view why_not);
  // The child is gone: nobody is asked from here on.
  void end(std::string_view why);

 private:
  using Waiting = std::vector<Done>;
  static void tell(const Waiting& waiting, const std::string& why_not);

  const std::string model_;
  const Send send_;
  std::atomic<Work> work_{Work::kNone};
  std::mutex mutex_;  // over all that follows
  uint64_t number_ = 0;
  bool under_way_ = false;
  std::string over_;
  Waiting waiting_;
};

}  // namespace weir::process
