#include "dialects/salience/state.h"

#include "marshal/tenant.h"
#include "wire/limits.h"

namespace weir::salience {
namespace {

using base::Code;
using base::failure;

}  // namespace

base::Result<session::Tenant> SalienceState::tenant(wire::Rpc& rpc) const {
  if (secrets.empty()) {
    bool shared = options.anonymous == msg::Anonymous::kShared;
    return session::Tenant{0, shared ? 0 : marshal::tenant_of(rpc.exchange().request())};
  }
  if (auto found = secrets.find(marshal::bearer_token(rpc.exchange().request())))
    return session::Tenant{uint32_t(*found), 0};
  rpc.exchange().record().reject = wire::reason::kAuth;
  rpc.initial("www-authenticate", "Bearer");
  return failure(Code::kUnauthenticated, rpc.metadata().has("authorization")
                                             ? "the bearer token is not known here"
                                             : "metadata 'authorization: Bearer <token>' is missing");
}

base::Result<bus::Served*> SalienceState::text_model(std::string_view name) const {
  if (name.empty()) name = options.default_model;
  if (!name.empty()) {
    auto found = bus.catalog().find(name, "");
    if (found && !(*found)->spec.text)
      return failure(Code::kFailedPrecondition, "model '" + std::string(name) + "' does not make tokens");
    return found;
  }
  bus::Served* only = nullptr;
  std::string all;
  for (const auto& [model, versions] : bus.catalog().models) {
    if (!versions.preferred->spec.text) continue;
    only = versions.preferred;
    all += (all.empty() ? "" : ", ") + model;
  }
  if (!only) return failure(Code::kNotFound, "no model that makes tokens is served");
  if (all != only->spec.name)
    return failure(Code::kFailedPrecondition, "several models make tokens: name one of " + all);
  return only;
}

base::Result<bus::Served*> SalienceState::readout_model() const {
  auto usual = text_model("");
  if (usual || !options.default_model.empty()) return usual;
  bus::Served* only = nullptr;
  size_t count = 0;
  for (const auto& [model, versions] : bus.catalog().models) {
    const auto& text = versions.preferred->spec.text;
    if (text && !text->concepts.empty()) only = versions.preferred, ++count;
  }
  if (count == 1) return only;
  if (usual.error().code != Code::kFailedPrecondition) return usual;
  return failure(Code::kFailedPrecondition,
                 "several models make tokens, and this request cannot name one: the manifest is that of the server's "
                 "salience.default_model, which is not set");
}

}  // namespace weir::salience
