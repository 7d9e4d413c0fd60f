#include "engines/llm/text_model.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/units.h"
#include "engines/llm/text_request.h"
#include "engines/llm/text_tensor_inbox.h"
#include "generation/kv_budget.h"

namespace weir::llm {
namespace {

// The context that clients are told is the one that a single client can have.
std::shared_ptr<const msg::TextSpec> with_room(const msg::ModelSpec& spec, const generation::TokenEngine& engine,
                                               const generation::TokenPolicy& policy) {
  uint32_t longest = spec.text->max_length, room = generation::kv_positions(engine, policy, longest);
  auto blocks = generation::kv_blocks(engine, policy, longest);
  base::log::info("keys and values",
                  {{"model", spec.name},
                   {"kv_cache", base::show_size(blocks * generation::bytes_per_block(engine, policy))},
                   {"positions", uint64_t(blocks) * policy.block_size},
                   {"context", std::min(room, longest)}});
  if (room >= longest || room == 0) return spec.text;
  auto text = std::make_shared<msg::TextSpec>(*spec.text);
  text->max_length = room;
  base::log::warning("a model's context is cut to what kv_cache has room for",
                     {{"model", spec.name}, {"positions", room}, {"of", longest}, {"kv_cache", policy.kv_bytes}});
  return text;
}

}  // namespace

generation::TokenModel make_text_model(msg::ModelSpec spec, std::unique_ptr<generation::TokenEngine> engine,
                                       const generation::TokenPolicy& policy) {
  spec.text = with_room(spec, *engine, policy);
  if (spec.platform.empty()) spec.platform = "weir_" + spec.engine;
  spec.max_batch = 0;
  spec.inputs = text_inputs();
  spec.outputs = {{"text_output", msg::DType::kBytes, {1}, false, {}}};
  return {std::move(spec), std::move(engine), policy, make_text_tensor_inbox};
}

}  // namespace weir::llm
