#include "engines/identity/identity.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <string_view>
#include <utility>

#include "engines/identity/device_identity.h"

namespace weir::identity {
namespace {

constexpr uint32_t kLongestDelayUs = 60'000'000;
constexpr uint64_t kMostZeros = uint64_t(1) << 20;  // bytes in place of an input that is absent
// They cost no memory, however many answers have them: what is never written is the kernel's page of zeros.
alignas(64) std::array<char, kMostZeros> absent_zeros{};

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
    for (size_t i = 0; i < std::min(spec_.inputs.size(), spec_.outputs.size()); ++i)
      if (spec_.inputs[i].optional) add_if_absent(batch, i);
    return {};
  }

 private:
  // Other steps of an ensemble may need the output of an input that the request does not have.
  void add_if_absent(sched::Batch& batch, size_t i) const {
    const auto& made = spec_.outputs[i];
    if (std::any_of(batch.outputs.begin(), batch.outputs.end(), [&](const auto& t) { return t.name == made.name; }))
      return;
    msg::Shape shape;
    if (spec_.max_batch > 0) shape.push(int64_t(batch.rows));
    for (int64_t dim : made.shape.dims())
      if (!shape.push(dim)) return;
    const auto elements = shape.elements();  // none where a dimension is open
    const uint64_t width = made.dtype == msg::DType::kBytes ? 4 : msg::size_of(made.dtype);
    if (!elements || width == 0 || *elements > kMostZeros / width) return;
    const std::string_view zeros(absent_zeros.data(), size_t(*elements * width));
    batch.outputs.push_back({made.name, made.dtype, shape, base::Bytes::constant(zeros)});
  }

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
