// The settings of JSON Web Tokens: auth.jwt.*.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "auth/jwks.h"
#include "auth/jwt.h"
#include "base/setting.h"
#include "base/status.h"
#include "base/text_file.h"

namespace weir::auth {

struct JwtSettings {
  JwtRules rules;
  std::string keys_file, keys_url;  // one of them, or none: no tokens are taken
  std::string ca_file;              // whom to believe about keys_url; empty: whom the system believes
  std::vector<std::string> default_roles = {"infer"};  // of tokens that name no role of this server
  // In front of tenants of tokens, so that whoever names a token's subject cannot name a key's tenant.
  std::string tenant_prefix = "jwt:";

  bool on() const { return !keys_file.empty() || !keys_url.empty(); }
};

// Rows that borrow `settings`.
void add_jwt_settings(std::vector<base::Setting>& rows, JwtSettings& settings);

// Errors: INVALID_ARGUMENT names the setting. Reads no file.
base::Status check_jwt_settings(const JwtSettings& settings);

// Errors: INVALID_ARGUMENT names the setting and the file. It reads a file.
base::Result<std::shared_ptr<const KeySet>> read_jwt_keys(const std::string& file,
                                                          base::Pipes pipes = base::Pipes::kRefused);

}  // namespace weir::auth
