#include "app/node_callers.h"

#include <memory>
#include <utility>

#include "base/encoding.h"
#include "cluster/node.h"
#include "marshal/tenant.h"

namespace weir::app {
namespace {

constexpr std::string_view kNodeKey = "weir-node-key", kCaller = "weir-caller", kCallerHost = "weir-caller-host",
                           kCallerMany = "weir-caller-many";

std::string decoded(std::string_view value) { return base::percent_decode(value).value_or(""); }

}  // namespace

bool NodeCallers::is_node(const wire::Request& request) const {
  if (!request.fields.has(kCallerHost)) return false;
  return call_key_.empty() ? live_ == nullptr : cluster::same_mac(request.fields.find(kNodeKey), call_key_);
}

base::Result<wire::Caller> NodeCallers::admit(const wire::Request& request, wire::Permission permission,
                                              std::string_view protocol) {
  if (!is_node(request)) return inner_ ? inner_->admit(request, permission, protocol) : wire::Caller();
  const std::string remembered = decoded(request.fields.find(kCaller));
  if (live_ && !remembered.empty()) return live_->recall(remembered, permission, protocol);
  using wire::Role;
  wire::Roles roles{Role::kHealth, Role::kInfer};
  if (live_) {
    auto nobody = live_->recall("", permission, protocol);
    if (!nobody) return nobody;
    roles = nobody->identity()->roles;
  }
  auto who = std::make_shared<wire::Identity>();
  who->name = "anonymous";
  who->tenant = decoded(request.fields.find(kCallerHost));
  const bool many = request.fields.has(kCallerMany);
  who->tenant_number = marshal::number_of_host(who->tenant, many ? marshal::Clients::kMany : marshal::Clients::kOne);
  who->roles = roles;
  return wire::Caller::enter(std::move(who), env_.now());
}

void NodeCallers::introduce(const wire::Request& request, wire::Fields& fields) {
  if (!call_key_.empty()) fields.add(kNodeKey, call_key_);
  if (live_)
    if (const std::string who = live_->remember(request); !who.empty()) fields.add(kCaller, base::percent_encode(who));
  fields.add(kCallerHost, base::percent_encode(marshal::client_of(request)));
  if (marshal::asks_for_many(request)) fields.add(kCallerMany, "1");
}

}  // namespace weir::app
