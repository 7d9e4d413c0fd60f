#include "dialects/salience/house.h"

#include <algorithm>

#include "wire/limits.h"

namespace weir::salience {
namespace {

using base::Code;
using base::failure;

constexpr std::string_view kScheme = "bearer ";

bool same_scheme(std::string_view value) {
  return value.size() >= kScheme.size() &&
         std::equal(kScheme.begin(), kScheme.end(), value.begin(),
                    [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? char(b + 32) : b); });
}

// Takes as long for a near miss as for a far one.
bool same_secret(std::string_view secret, std::string_view shown) {
  size_t differs = secret.size() ^ shown.size();
  for (size_t i = 0; i < shown.size(); ++i) differs |= size_t(uint8_t(shown[i]) ^ uint8_t(secret[i % secret.size()]));
  return differs == 0;
}

}  // namespace

base::Result<session::Tenant> House::tenant(wire::Rpc& rpc) const {
  if (options.bearer_tokens.empty()) return session::Tenant{0};
  std::string_view value = rpc.metadata().find("authorization");
  std::string_view shown = same_scheme(value) ? value.substr(kScheme.size()) : std::string_view();
  uint32_t found = UINT32_MAX;
  for (uint32_t i = 0; i < options.bearer_tokens.size(); ++i)
    if (same_secret(options.bearer_tokens[i], shown)) found = i;
  if (found != UINT32_MAX) return session::Tenant{found};
  rpc.exchange().ledger().reject = wire::reason::kAuth;
  rpc.initial("www-authenticate", "Bearer");
  return failure(Code::kUnauthenticated, value.data() ? "the bearer token is not known here"
                                                      : "metadata 'authorization: Bearer <token>' is missing");
}

base::Result<bus::Served*> House::text_model(std::string_view name) const {
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

base::Result<bus::Served*> House::readout_model() const {
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
