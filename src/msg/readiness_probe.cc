#include "msg/readiness_probe.h"

#include <algorithm>
#include <mutex>

namespace weir::msg {
namespace {

class AllReady final : public ReadinessProbe {
 public:
  explicit AllReady(std::vector<std::shared_ptr<ReadinessProbe>> probes) : probes_(std::move(probes)) {}

  void ask(Done done) override {
    auto answers = std::make_shared<Answers>();
    answers->left = probes_.size(), answers->done = std::move(done);
    for (const auto& probe : probes_) probe->ask([answers](std::string why_not) { answers->add(std::move(why_not)); });
  }

  bool busy() const override {
    return std::any_of(probes_.begin(), probes_.end(), [](const auto& probe) { return probe->busy(); });
  }

 private:
  struct Answers {
    std::mutex mutex;
    size_t left = 0;      // under mutex, as the next
    std::string why_not;  // of the first that is not ready
    Done done;

    void add(std::string why) {
      {
        std::lock_guard lock(mutex);
        if (why_not.empty()) why_not = std::move(why);
        if (--left > 0) return;
      }
      done(std::move(why_not));
    }
  };

  const std::vector<std::shared_ptr<ReadinessProbe>> probes_;
};

}  // namespace

std::shared_ptr<ReadinessProbe> all_ready(std::vector<std::shared_ptr<ReadinessProbe>> probes) {
  std::erase(probes, nullptr);
  if (probes.empty()) return nullptr;
  if (probes.size() == 1) return std::move(probes.front());
  return std::make_shared<AllReady>(std::move(probes));
}

}  // namespace weir::msg
