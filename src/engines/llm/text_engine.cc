#include "engines/llm/text_engine.h"

#include <utility>

#include "base/log.h"
#include "engines/llm/text_front.h"
#include "engines/llm/text_request.h"
#include "generation/kv_budget.h"
#include "generation/load_balancer.h"

namespace weir::llm {
namespace {

class TextEngine final : public sched::Engine {
 public:
  TextEngine(msg::ModelSpec spec, std::unique_ptr<generation::TokenEngine> engine,
             const generation::TokenPolicy& policy)
      : spec_(std::move(spec)), engine_(std::move(engine)), policy_(policy) {}

  const msg::ModelSpec& spec() const override { return spec_; }
  base::Status step(sched::Batch&) override {
    return base::failure(base::Code::kInternal, "a model of tokens is not stepped in rows");
  }
  std::unique_ptr<msg::Inbox> own_inbox(const msg::ModelSpec& spec, bus::ModelStats& stats, base::SlabSource&,
                                        std::vector<std::unique_ptr<sched::Engine>> others) override {
    std::vector<std::unique_ptr<generation::TokenInbox>> lanes;
    lanes.push_back(make_lane(spec, stats));
    for (auto& other : others) lanes.push_back(static_cast<TextEngine&>(*other).make_lane(spec, stats));
    return make_text_front(generation::make_token_load_balancer(std::move(lanes)), spec, stats);
  }

 private:
  std::unique_ptr<generation::TokenInbox> make_lane(const msg::ModelSpec& spec, bus::ModelStats& stats) {
    return generation::make_token_lane(std::move(engine_), policy_, spec, stats);
  }

  const msg::ModelSpec spec_;
  std::unique_ptr<generation::TokenEngine> engine_;
  const generation::TokenPolicy policy_;
};

// The context that clients are told is the one that a single client can have.
std::shared_ptr<const msg::TextSpec> with_room(const msg::ModelSpec& spec, const generation::TokenEngine& engine,
                                               const generation::TokenPolicy& policy) {
  uint32_t longest = spec.text->max_length, room = generation::kv_positions(engine, policy, longest);
  if (room >= longest || room == 0) return spec.text;
  auto text = std::make_shared<msg::TextSpec>(*spec.text);
  text->max_length = room;
  base::log::warning("a model's context is cut to what kv_cache has room for",
                     {{"model", spec.name}, {"positions", room}, {"of", longest}, {"kv_cache", policy.kv_bytes}});
  return text;
}

}  // namespace

std::unique_ptr<sched::Engine> make_text_engine(msg::ModelSpec spec, std::unique_ptr<generation::TokenEngine> engine,
                                                const generation::TokenPolicy& policy) {
  spec.text = with_room(spec, *engine, policy);
  if (spec.platform.empty()) spec.platform = "weir_" + spec.engine;
  spec.max_batch = 0;
  spec.inputs = text_inputs();
  spec.outputs = {{"text_output", msg::DType::kBytes, {1}, false, {}}};
  return std::make_unique<TextEngine>(std::move(spec), std::move(engine), policy);
}

}  // namespace weir::llm
