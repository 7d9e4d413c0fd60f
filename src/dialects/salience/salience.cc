#include "dialects/salience/salience.h"

#include "dialects/salience/house.h"
#include "dialects/salience/lifecycle.h"
#include "salience.pb.h"
#include "status.pb.h"

namespace weir::salience {

namespace pb = ::salience::v1;

struct Salience::Parts {
  House house;
  std::vector<std::unique_ptr<Method>> unary;
  Generate generate{house};
};

Salience::Salience(bus::Bus& bus, wire::RpcServer& rpcs, session::Sessions& sessions, Options options)
    : parts_(new Parts{{bus, sessions, std::move(options), {}, {}, 0}, {}}) {
  parts_->house.secrets = marshal::Secrets(parts_->house.options.bearer_tokens);
  // Naming a message links its file into the pool: refusals have their details in JSON, too.
  (void)google::rpc::ErrorInfo::descriptor();
  add_lifecycle(parts_->house, rpcs, parts_->unary);
  rpcs.add({std::string(kService), "Generate", wire::RpcKind::kServerStream, &parts_->generate,
            pb::GenerateRequest::descriptor()->full_name(), pb::GenerateEvent::descriptor()->full_name(), kProtocol,
            wire::Permission::kInfer});
}

Salience::~Salience() = default;

}  // namespace weir::salience
