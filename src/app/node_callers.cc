#include "app/node_callers.h"

#include <memory>
#include <utility>

#include "base/encoding.h"
#include "cluster/node.h"
#include "marshal/tenant.h"
#include "net/fd.h"

namespace weir::app {
namespace {

constexpr std::string_view kNodeKey = "weir-node-key", kCaller = "weir-caller", kCallerHost = "weir-caller-host",
                           kCallerMany = "weir-caller-many";

std::string decoded(std::string_view value) { return base::percent_decode(value).value_or(""); }

}  // namespace

bool NodeCallers::came_to_nodes(const wire::Request& request) {
  const auto* names = request.peer ? request.peer->certificate_names.get() : nullptr;
  return names && !names->empty() && names->front() == net::kShownByNode;
}

bool NodeCallers::is_node(const wire::Request& request) const {
  if (!request.fields.has(kCallerHost)) return false;
  if (shows_ == Shows::kCertificate && !came_to_nodes(request)) return false;
  if (shows_ == Shows::kCertificate && call_key_.empty()) return true;
  return call_key_.empty() ? live_ == nullptr : cluster::same_mac(request.fields.find(kNodeKey), call_key_);
}

base::Result<wire::Caller> NodeCallers::admit(const wire::Request& request, wire::Permission permission,
                                              std::string_view protocol) {
  if (!is_node(request) && came_to_nodes(request)) return admit_node(request, permission);
  if (!is_node(request)) return inner_ ? inner_->admit(request, permission, protocol) : wire::Caller();
  auto caller = admit_client(request, permission, protocol);
  const bool proven = shows_ == Shows::kCertificate || !call_key_.empty();
  if (!caller || !proven) return caller;
  using base::Client;
  const auto limited = request.fields.has(kCallerMany) ? Client::Limited::kNo : Client::Limited::kYes;
  caller->name_client(clients_.enter(decoded(request.fields.find(kCallerHost)), limited));
  return caller;
}

// The call of a client that another node has handed on.
base::Result<wire::Caller> NodeCallers::admit_client(const wire::Request& request, wire::Permission permission,
                                                     std::string_view protocol) {
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

// A call for a model of this node, by one that has shown its certificate.
base::Result<wire::Caller> NodeCallers::admit_node(const wire::Request& request, wire::Permission permission) {
  constexpr std::string_view kBearer = "Bearer ";
  const std::string_view shown = request.fields.find("authorization");
  const bool knows =
      call_key_.empty() || (shown.starts_with(kBearer) && cluster::same_mac(shown.substr(kBearer.size()), call_key_));
  if (!knows) return base::failure(base::Code::kUnauthenticated, "this listener is for nodes that have cluster.secret");
  auto node = std::make_shared<wire::Identity>();
  node->name = "cluster.tls";
  node->roles = {wire::Role::kHealth, wire::Role::kInfer};
  using wire::Permission;
  if (permission != Permission::kHealth && permission != Permission::kRead && permission != Permission::kInfer)
    return base::failure(base::Code::kPermissionDenied, "nodes may ask for models, and for nothing else");
  return wire::Caller::enter(std::move(node), env_.now());
}

void NodeCallers::introduce(const wire::Request& request, wire::Fields& fields) {
  if (!call_key_.empty()) fields.add(kNodeKey, call_key_);
  if (live_)
    if (const std::string who = live_->remember(request); !who.empty()) fields.add(kCaller, base::percent_encode(who));
  fields.add(kCallerHost, base::percent_encode(marshal::client_of(request)));
  if (marshal::asks_for_many(request)) fields.add(kCallerMany, "1");
}

}  // namespace weir::app
