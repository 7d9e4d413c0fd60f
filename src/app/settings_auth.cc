// The settings of src/auth/.
#include <algorithm>

#include "app/setting_rows.h"
#include "auth/grant.h"

namespace weir::app {
namespace {

Status check_anonymous(const Values& values) {
  for (const auto& v : values) {
    if ((v == "auto" || v == "none") && values.size() == 1) continue;
    if (!auth::parse_role(v))
      return invalid("expected auto, none, or some of health, metrics, infer, admin; got '" + v + "'");
  }
  return {};
}

}  // namespace

void add_auth(std::vector<Setting>& rows, Config& c) {
  using Admin = AuthConfig::Admin;
  rows.push_back(in_help(path("auth.keys_file",
                              "a YAML file of API keys, as hashes, with what each may do; read again when it changes",
                              c.auth.keys_file)));
  rows.push_back(in_help(
      checked(list("auth.anonymous", "ROLE",
                   "what clients without a key may do: health, metrics, infer, admin; none; auto = health where there "
                   "are keys, else everything; repeatable",
                   c.auth.anonymous),
              check_anonymous)));
  rows.push_back(choice<Admin>("auth.admin",
                               "guarded, open: whether clients without a key may load models and change settings where "
                               "other machines can reach admin.listen (or listen) and there are no keys",
                               c.auth.admin, {{"guarded", Admin::kGuarded}, {"open", Admin::kOpen}}));
  rows.push_back(auth::certificates_setting(c.auth.certificates));
  auth::add_jwt_settings(rows, c.auth.jwt);
}

}  // namespace weir::app
