#include "dialects/salience/salience.h"

#include "dialects/salience/lifecycle.h"
#include "dialects/salience/state.h"
#include "salience.pb.h"
#include "status.pb.h"

namespace weir::salience {

namespace pb = ::salience::v1;

struct Salience::Parts {
  SalienceState state;
  std::vector<std::unique_ptr<Method>> unary;
  Generate generate{state};
};

Salience::Salience(bus::Bus& bus, wire::RpcServer& rpcs, session::Sessions& sessions, Options options)
    : parts_(new Parts{{bus, sessions, std::move(options), {}, {}, 0, {}}, {}}) {
  // Naming a message links its file into the descriptor pool, so that errors have their details in JSON, too.
  (void)google::rpc::ErrorInfo::descriptor();
  add_lifecycle(parts_->state, rpcs, parts_->unary);
  rpcs.add({std::string(kService), "Generate", wire::RpcKind::kServerStream, &parts_->generate,
            pb::GenerateRequest::descriptor()->full_name(), pb::GenerateEvent::descriptor()->full_name(), kProtocol,
            wire::Permission::kInfer});
}

Salience::~Salience() = default;

}  // namespace weir::salience
