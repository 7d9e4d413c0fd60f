#include "dialects/openai/keys.h"

#include "base/sip_hash.h"
#include "marshal/tenant.h"

namespace weir::openai {

bool admits(const marshal::Secrets& keys, const wire::Request& request) {
  return keys.empty() || keys.find(marshal::bearer_token(request));
}

uint64_t tenant(const wire::Request& request, const marshal::Secrets& keys) {
  return marshal::tenant_of(request, keys.empty() ? std::string_view() : marshal::bearer_token(request));
}

uint64_t cache_salt(std::string_view salt) { return salt.empty() ? 0 : base::hash64(base::process_key(), salt) | 1; }

}  // namespace weir::openai
