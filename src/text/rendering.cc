#include "text/rendering.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/overload.h"

namespace weir::text {
namespace {

base::Status status_of(jinja::Error error) {
  switch (error.kind) {
    case jinja::Error::Kind::kTemplate: return base::invalid(std::move(error.message));
    case jinja::Error::Kind::kLimit: return base::failure(base::Code::kResourceExhausted, std::move(error.message));
    case jinja::Error::Kind::kBudget: return base::failure(base::Code::kAborted, std::move(error.message));
    case jinja::Error::Kind::kMemory: return base::overloaded("there is no memory for the prompt; try again later");
    case jinja::Error::Kind::kCancelled: return base::failure(base::Code::kCancelled, std::move(error.message));
  }
  return base::failure(base::Code::kInternal, std::move(error.message));
}

// The memory that one rendering takes, until it is over.
class RenderingMeter final : public jinja::MemoryMeter {
 public:
  explicit RenderingMeter(base::SteppedCharge* charge) : charge_(charge) {}
  RenderingMeter(const RenderingMeter&) = delete;
  ~RenderingMeter() {
    if (charge_) charge_->give(taken_);
  }
  bool take(uint64_t bytes) override {
    if (!charge_->take(bytes)) return false;
    taken_ += bytes;
    return true;
  }
  // So many bytes of it stay charged.
  void leave(uint64_t bytes) { taken_ -= std::min(taken_, bytes); }
  jinja::MemoryMeter* meter() { return charge_ ? this : nullptr; }

 private:
  base::SteppedCharge* const charge_;
  uint64_t taken_ = 0;
};

}  // namespace

base::Result<std::string> render(const jinja::Template& chat, const nlohmann::ordered_json& variables,
                                 const msg::TextBudget& budget) {
  RenderingMeter memory(budget.memory);
  auto text = chat.render(variables, {budget.steps, budget.bytes, budget.cancelled, memory.meter()});
  if (!text) return status_of(std::move(text.error()));
  memory.leave(text->capacity());
  return *std::move(text);
}

}  // namespace weir::text
