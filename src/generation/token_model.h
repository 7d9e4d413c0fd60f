// TokenModel: a model of tokens on its device, or on several, loaded and not yet in front of Calls.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bus/stats.h"
#include "generation/engine.h"
#include "generation/policy.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::generation {

struct TokenModel {
  // Puts an Inbox in front of the model's lanes, for the Calls that they do not take themselves. What is borrowed
  // outlives the Inbox.
  using WrapLanes = std::unique_ptr<msg::Inbox> (*)(std::unique_ptr<msg::Inbox> lanes, const msg::ModelSpec& spec,
                                                    bus::ModelStats& stats);
  msg::ModelSpec spec;  // as the model's files have it; the repository's configuration is laid over it
  std::unique_ptr<TokenEngine> engine;
  TokenPolicy policy;
  WrapLanes wrap_lanes = nullptr;           // null: there is none
  std::string place = "cpu";                // where it runs, as sched::Engine::place()
  uint64_t adapter_bytes = 0;               // of memory, which its adapters take beside the weights
  std::vector<std::string> other_places{};  // of devices that compute it together with the first, with equal parts
};

// A lane for each instance, a load balancer over them, and the front. `instances` are of one model, on different
// devices, at least one. `spec` (with spec.text) and `stats` outlive the Inbox. Start-up code: throws
// std::runtime_error when there is no room for keys and values.
std::unique_ptr<msg::Inbox> make_inbox(std::vector<TokenModel> instances, const msg::ModelSpec& spec,
                                       bus::ModelStats& stats);

}  // namespace weir::generation
