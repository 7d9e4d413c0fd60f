#include "engines/identity/identity.h"

#include <time.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <utility>

#include "engines/identity/device_identity.h"

namespace weir::identity {
namespace {

constexpr uint32_t kLongestDelayUs = 60'000'000;

class Identity final : public sched::Engine {
 public:
  Identity(msg::ModelSpec spec, std::chrono::microseconds delay) : spec_(std::move(spec)), delay_(delay) {}

  const msg::ModelSpec& spec() const override { return spec_; }
  bool is_inline() const override { return delay_.count() == 0; }

  base::Status step(sched::Batch& batch) override {
    if (delay_.count() > 0) sleep();
    batch.outputs = batch.inputs;
    return {};
  }

 private:
  void sleep() const {
    timespec left{time_t(delay_.count() / 1'000'000), long(delay_.count() % 1'000'000 * 1000)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
  }

  msg::ModelSpec spec_;
  std::chrono::microseconds delay_;
};

}  // namespace

base::Result<std::unique_ptr<sched::Engine>> load(const msg::ModelSpec& wanted, const Place& place) {
  uint32_t delay = 0;
  if (auto p = wanted.parameters.find("delay_us"); p != wanted.parameters.end()) {
    const std::string& text = p->second;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), delay);
    if (error != std::errc() || end != text.data() + text.size() || delay > kLongestDelayUs)
      return base::invalid("parameter 'delay_us' is \"" + text + "\": a whole number from 0 to 60000000 is expected");
  }
  msg::ModelSpec spec = wanted;
  spec.engine = "identity";
  if (spec.platform.empty()) spec.platform = "identity";
  spec.any_tensors = true;
  if (auto device = wanted.parameters.find("device"); device != wanted.parameters.end()) {
    if (delay > 0) return base::invalid("parameters 'delay_us' and 'device' do not go together");
    return load_on_device(std::move(spec), device->second, place);
  }
  return std::unique_ptr<sched::Engine>(std::make_unique<Identity>(std::move(spec), std::chrono::microseconds(delay)));
}

}  // namespace weir::identity
