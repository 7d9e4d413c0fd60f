#include "generation/token_model.h"

#include <utility>

#include "generation/lane.h"
#include "generation/load_balancer.h"

namespace weir::generation {

std::unique_ptr<msg::Inbox> make_inbox(std::vector<TokenModel> instances, const msg::ModelSpec& spec,
                                       bus::ModelStats& stats) {
  std::vector<std::unique_ptr<TokenInbox>> lanes;
  for (auto& instance : instances)
    lanes.push_back(make_token_lane(std::move(instance.engine), instance.policy, spec, stats));
  auto inbox = make_token_load_balancer(std::move(lanes));
  auto* wrap_lanes = instances.front().wrap_lanes;
  return wrap_lanes ? wrap_lanes(std::move(inbox), spec, stats) : std::move(inbox);
}

}  // namespace weir::generation
