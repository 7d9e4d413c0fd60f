#include "engines/llm/text_engine.h"

#include <utility>

#include "engines/llm/text_front.h"
#include "engines/llm/text_request.h"

namespace weir::llm {
namespace {

class TextEngine final : public sched::Engine {
 public:
  TextEngine(msg::ModelSpec spec, std::unique_ptr<sched::TokenEngine> engine, const sched::TokenPolicy& policy)
      : spec_(std::move(spec)), engine_(std::move(engine)), policy_(policy) {}

  const msg::ModelSpec& spec() const override { return spec_; }
  base::Status step(sched::Batch&) override {
    return base::failure(base::Code::kInternal, "a model of tokens is not stepped in rows");
  }
  std::unique_ptr<msg::Inbox> own_inbox(const msg::ModelSpec& spec, bus::ModelStats& stats,
                                        base::SlabSource&) override {
    return make_text_front(sched::make_token_lane(std::move(engine_), policy_, spec, stats), spec, stats);
  }

 private:
  const msg::ModelSpec spec_;
  std::unique_ptr<sched::TokenEngine> engine_;
  const sched::TokenPolicy policy_;
};

}  // namespace

std::unique_ptr<sched::Engine> make_text_engine(msg::ModelSpec spec, std::unique_ptr<sched::TokenEngine> engine,
                                                const sched::TokenPolicy& policy) {
  if (spec.platform.empty()) spec.platform = "weir_" + spec.engine;
  spec.max_batch = 0;
  spec.inputs = text_inputs();
  spec.outputs = {{"text_output", msg::DType::kBytes, {1}, false, {}}};
  return std::make_unique<TextEngine>(std::move(spec), std::move(engine), policy);
}

}  // namespace weir::llm
