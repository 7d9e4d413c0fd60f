#include "engines/identity/identity.h"

#include <time.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <utility>

#include "engines/identity/device_identity.h"

namespace weir::identity {
namespace {

constexpr uint32_t kLongestDelayUs = 60'000'000;

// Where the configuration has calls wait for others, they do so here, too: those who try out a scheduler look at it.
bool waits_for_company(const msg::ModelSpec& spec) {
  return spec.configured.batching && spec.batching.dynamic && spec.batching.max_delay.count() > 0 && spec.max_batch > 1;
}

class Identity final : public sched::Engine {
 public:
  Identity(msg::ModelSpec spec, std::chrono::microseconds delay)
      : spec_(std::move(spec)), delay_(delay), waits_(waits_for_company(spec_)) {}

  const msg::ModelSpec& spec() const override { return spec_; }
  bool is_inline() const override { return delay_.count() == 0 && !waits_; }

  base::Status step(sched::Batch& batch) override {
    if (delay_.count() > 0) sleep();
    batch.outputs = batch.inputs;  // into the memory of the last step's
    name_outputs(batch.outputs, spec_);
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
  const bool waits_;
};

// In microseconds: delay_us, or Triton's execute_delay_ms.
base::Result<uint32_t> delay_of(const msg::ModelSpec& wanted) {
  for (const auto& [name, unit] : {std::pair<std::string, uint32_t>("delay_us", 1), {"execute_delay_ms", 1000}}) {
    auto found = wanted.parameters.find(name);
    if (found == wanted.parameters.end()) continue;
    const std::string& text = found->second;
    uint32_t delay = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), delay);
    if (error != std::errc() || end != text.data() + text.size() || delay > kLongestDelayUs / unit)
      return base::invalid("parameter '" + name + "' is \"" + text + "\": a whole number from 0 to " +
                           std::to_string(kLongestDelayUs / unit) + " is expected");
    return delay * unit;
  }
  return 0;
}

}  // namespace

void name_outputs(std::vector<msg::Tensor>& tensors, const msg::ModelSpec& spec) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    size_t at = i;
    if (!spec.inputs.empty()) {
      auto declared = std::find_if(spec.inputs.begin(), spec.inputs.end(),
                                   [&](const auto& input) { return input.name == tensors[i].name; });
      at = size_t(declared - spec.inputs.begin());
      if (declared == spec.inputs.end()) continue;
    }
    if (at < spec.outputs.size()) tensors[i].name = spec.outputs[at].name;
  }
}

base::Result<std::unique_ptr<sched::Engine>> load(const msg::ModelSpec& wanted, const Place& place) {
  auto read = delay_of(wanted);
  if (!read) return read.error();
  const uint32_t delay = *read;
  for (size_t i = 0; i < std::min(wanted.inputs.size(), wanted.outputs.size()); ++i)
    if (wanted.inputs[i].dtype != wanted.outputs[i].dtype)
      return base::invalid("output '" + wanted.outputs[i].name + "' is " +
                           std::string(msg::name(wanted.outputs[i].dtype)) + ", and input '" + wanted.inputs[i].name +
                           "', which it repeats, is " + std::string(msg::name(wanted.inputs[i].dtype)));
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
