// NodeCallers: the Authenticator of a shard whose server is one of a cluster: calls that other nodes have handed on
// come as the client who asked there. A node says who that was in fields that count only beside the key of
// cluster.secret; without a secret, only where nobody needs a key. With cluster.tls nodes come to the listener that is
// for them, with certificates, and nowhere else; calls for their models, which name no client, are let in there, too.
// Where a key or a certificate proves that a node asks, its client's shares (base/client.h) are used, not the node's.
//
//   weir-node-key      Secrets::call_key
//   weir-caller        auth::Authenticator::remember(), percent encoded; not there: nobody in particular
//   weir-caller-host   of the client, percent encoded: tenants without a key are told apart by it
//   weir-caller-many   it speaks for many clients
#pragma once

#include <string>
#include <string_view>

#include "auth/authenticator.h"
#include "base/clients.h"
#include "base/env.h"
#include "wire/authenticator.h"

namespace weir::app {

class NodeCallers final : public wire::Authenticator {
 public:
  // `inner`: of calls that come from clients; `live`: who knows keys. Both null where nobody is asked who it is.
  // `clients`, borrowed: the table of the server's clients.
  enum class Shows : uint8_t { kKey, kCertificate };  // by what a node is known
  NodeCallers(base::Env& env, wire::Authenticator* inner, auth::Authenticator* live, base::Clients& clients,
              std::string call_key, Shows shows)
      : env_(env), inner_(inner), live_(live), clients_(clients), call_key_(std::move(call_key)), shows_(shows) {}

  base::Result<wire::Caller> admit(const wire::Request& request, wire::Permission permission,
                                   std::string_view protocol) override;
  std::string name_of(const wire::Request& request) override {
    return inner_ && !is_node(request) ? inner_->name_of(request) : std::string();
  }
  base::Status permit(const wire::Request& request, wire::Permission permission) override {
    return inner_ ? inner_->permit(request, permission) : base::Status();
  }
  // Says for another node's NodeCallers whose the request is.
  void introduce(const wire::Request& request, wire::Fields& fields);

 private:
  bool is_node(const wire::Request& request) const;
  static bool came_to_nodes(const wire::Request& request);
  base::Result<wire::Caller> admit_client(const wire::Request& request, wire::Permission permission,
                                          std::string_view protocol);
  base::Result<wire::Caller> admit_node(const wire::Request& request, wire::Permission permission);

  base::Env& env_;
  wire::Authenticator* const inner_;
  auth::Authenticator* const live_;
  base::Clients& clients_;
  const std::string call_key_;
  const Shows shows_;
};

}  // namespace weir::app
