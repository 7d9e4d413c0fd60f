#include "auth/credentials.h"

#include <algorithm>
#include <utility>

#include "base/base64url.h"
#include "wire/text.h"

namespace weir::auth {
namespace {

constexpr std::string_view kBearer = "bearer ", kSubprotocol = "weir.key.";

base::Status refuse(std::string text) { return base::failure(base::Code::kUnauthenticated, std::move(text)); }

// The secret in a field; null where the field shows none. Other schemes are for others: a proxy's Basic, say.
std::string_view secret_in(wire::Fields::View field) {
  auto [name, value] = field;
  if (name == "x-api-key" || name == "api-key") return wire::trim(value);
  if (name != "authorization") return {};
  if (value.size() < kBearer.size() || !wire::same_text(value.substr(0, kBearer.size()), kBearer)) return {};
  return wire::trim(value.substr(kBearer.size()));
}

std::string_view subprotocol_key(const wire::Fields& fields) {
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].name != "sec-websocket-protocol") continue;
    for (std::string_view rest = fields[i].value; !rest.empty();) {
      std::string_view element = wire::trim(rest.substr(0, rest.find(',')));
      if (element.starts_with(kSubprotocol)) return element.substr(kSubprotocol.size());
      rest.remove_prefix(std::min(rest.size(), rest.find(',') == rest.npos ? rest.size() : rest.find(',') + 1));
    }
  }
  return {};
}

}  // namespace

base::Result<Credentials> credentials_of(const wire::Request& request) {
  Credentials out;
  const wire::Fields& fields = request.fields;
  bool authorization = false;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].name == "authorization" && std::exchange(authorization, true))
      return refuse("there are two authorization fields: send one");
    const std::string_view secret = secret_in(fields[i]);
    if (!secret.data()) continue;
    if (out.shown && out.field != secret)
      return refuse("authorization, x-api-key and api-key show different keys: send one");
    out.shown = true;
    out.field = secret;
  }
  if (!out.shown && fields.has("sec-websocket-protocol"))
    if (auto key = subprotocol_key(fields); key.data())
      out.shown = true, out.decoded = base::base64url_decode(key, base::Base64Url::kStrict).value_or("");
  if (out.secret().size() > kMostSecretBytes) return refuse("the key is longer than any that is given out");
  return out;
}

}  // namespace weir::auth
