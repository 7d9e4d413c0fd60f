#include "auth/authenticator.h"

#include <algorithm>
#include <utility>

#include "auth/credentials.h"
#include "auth/remembered.h"
#include "base/log.h"

namespace weir::auth {
namespace {

using base::Code;
using base::failure;
using wire::Permission;
using wire::Role;
using wire::Roles;

constexpr base::Duration kLogEvery = std::chrono::seconds(10);

bool allows(Roles roles, Permission permission) {
  switch (permission) {
    case Permission::kHealth: return roles.has(Role::kHealth);
    case Permission::kMetrics:
    case Permission::kObserve: return roles.has(Role::kMetrics) || roles.has(Role::kAdmin);
    case Permission::kRead: return roles.has(Role::kInfer) || roles.has(Role::kAdmin);
    case Permission::kInfer: return roles.has(Role::kInfer);
    case Permission::kAdmin: return roles.has(Role::kAdmin);
  }
  return false;
}

// A client without a secret may be anybody: it sees what tells of other clients only where it may administer, too, and
// of `request`'s listener only where admin methods are served.
bool allows_anonymous(Roles roles, Permission permission, const wire::Request& request) {
  if (permission != Permission::kObserve) return allows(roles, permission);
  const bool elsewhere = request.peer && request.peer->admin == wire::AdminMethods::kElsewhere;
  return !elsewhere && allows(roles, Permission::kAdmin);
}

// "the role infer or admin".
std::string_view role_for(Permission permission) {
  switch (permission) {
    case Permission::kHealth: return "health";
    case Permission::kMetrics:
    case Permission::kObserve: return "metrics or admin";
    case Permission::kRead: return "infer or admin";
    case Permission::kInfer: return "infer";
    default: return "admin";
  }
}

// The first part of a JSON Web Token is a JSON object, '{"', in base64url.
bool is_json_web_token(std::string_view secret) {
  return secret.starts_with("eyJ") && std::count(secret.begin(), secret.end(), '.') == 2;
}

// Whether it is one of the words.
bool is_among(std::string_view protocol, std::string_view words) {
  while (!words.empty()) {
    const std::string_view word = words.substr(0, words.find(' '));
    if (word == protocol) return true;
    words.remove_prefix(std::min(words.size(), word.size() + 1));
  }
  return false;
}

std::string comma_separated(std::string_view words) {
  std::string out(words);
  for (size_t at = 0; (at = out.find(' ', at)) != out.npos; at += 2) out.replace(at, 1, ", ");
  return out;
}

IdentityRef anonymous_identity(Roles roles) {
  auto out = std::make_shared<wire::Identity>();
  out->name = "anonymous";
  out->roles = roles;
  return out;
}

base::Status no_key() {
  return failure(Code::kUnauthenticated,
                 "this needs a key: send one as 'authorization: Bearer <key>' (auth.keys_file, auth.anonymous)");
}

base::Status lacks_role(const wire::Identity& who, Permission permission) {
  return failure(Code::kPermissionDenied,
                 "the key '" + who.name + "' has not the role that this needs: " + std::string(role_for(permission)));
}

base::Status observed_at_admin_listener() {
  return failure(Code::kPermissionDenied,
                 "the requests of others and the log are shown to keys (auth.keys_file), and at admin.listen");
}

// Beyond loopback nobody may change a server that has no keys.
base::Status admin_is_closed(Permission permission) {
  const std::string what = permission == Permission::kObserve ? "the requests of others and the log are shown to keys"
                                                              : "admin methods need a key";
  return failure(Code::kPermissionDenied, what +
                                              " where the server can be reached from other machines: set "
                                              "auth.keys_file, or auth.admin: open");
}

}  // namespace

Authenticator::Authenticator(base::Env& env, Sources sources, Roles anonymous)
    : env_(env),
      sources_(sources),
      anonymous_(anonymous_identity(anonymous)),
      table_(std::make_shared<const KeyTable>()) {}

// The version is read before the table, so that a table that comes in between is taken the next time.
const KeyTable& Authenticator::table() {
  if (!sources_.keys) return *table_;
  if (const uint64_t version = sources_.keys->version(); version != version_) {
    version_ = version;
    table_ = sources_.keys->table();
  }
  return *table_;
}

base::Result<IdentityRef> Authenticator::by_secret(std::string_view secret, const wire::Request& request,
                                                   Rejection& why) {
  if (const IdentityRef* known = table().find(digest_of(secret))) {
    if (env_.wall() < (*known)->expires) return *known;
    why = {Rejection::Kind::kExpired, (*known)->name};
    return failure(Code::kUnauthenticated, "the key '" + (*known)->name + "' has expired: ask for a new one");
  }
  if (sources_.tokens && is_json_web_token(secret)) {
    const wire::PeerInfo* peer = request.peer;
    auto known = sources_.tokens->verify(secret, peer ? peer->host() : std::string_view(), env_.now(), env_.wall());
    if (!known) why = {Rejection::Kind::kToken, known.error().text};
    return known;
  }
  why.kind = Rejection::Kind::kUnknown;
  return failure(Code::kUnauthenticated, "the key is not known here");
}

// Returns a null Identity for a request that shows no secret and no certificate.
base::Result<IdentityRef> Authenticator::identify(const wire::Request& request, Rejection& why) {
  if (takes_secrets()) {
    auto shown = credentials_of(request);
    if (!shown) return shown.error();
    if (shown->shown) return by_secret(shown->secret(), request, why);
  }
  const wire::PeerInfo* peer = request.peer;
  if (sources_.certificates && peer && peer->certificate_names)
    return sources_.certificates->identity_of(*peer->certificate_names);
  return IdentityRef();
}

base::Result<wire::Caller> Authenticator::admit(const wire::Request& request, Permission permission,
                                                std::string_view protocol) {
  auto caller = admit_known(request, permission, protocol);
  if (caller && caller->identity()) return caller;
  const bool open = allows_anonymous(anonymous_->roles, permission, request);
  if (open && (caller || permission == Permission::kHealth)) return wire::Caller::enter(anonymous_, env_.now());
  if (!caller) return caller;
  return nobody(permission, request);
}

base::Status Authenticator::permit(const wire::Request& request, Permission permission) {
  const wire::Identity* who = request.identity;
  const bool anonymous = who == anonymous_.get();
  if (!who) return {};
  if (anonymous ? allows_anonymous(who->roles, permission, request) : allows(who->roles, permission)) return {};
  return anonymous ? nobody(permission, request) : lacks_role(*who, permission);
}

// The error for a request that shows no secret and needs a role.
base::Status Authenticator::nobody(Permission permission, const wire::Request& request) const {
  if (takes_secrets() || sources_.certificates) return no_key();
  const bool elsewhere = request.peer && request.peer->admin == wire::AdminMethods::kElsewhere;
  return permission == Permission::kObserve && elsewhere ? observed_at_admin_listener() : admin_is_closed(permission);
}

std::string Authenticator::remember(const wire::Request& request) {
  const wire::Identity* who = request.identity;
  if (!who || who == anonymous_.get()) return {};
  const IdentityRef* key = table().find_named(who->name);
  return show_remembered(*who, key && key->get() == who ? RememberedBy::kKey : RememberedBy::kGrant);
}

base::Result<wire::Caller> Authenticator::recall(std::string_view remembered, Permission permission,
                                                 std::string_view protocol, Recalled as) {
  if (remembered.empty()) {
    if (!allows_anonymous(anonymous_->roles, permission, {})) return nobody(permission, {});
    return wire::Caller::enter(anonymous_, env_.now());
  }
  auto known = read_remembered(remembered);
  if (!known) return failure(Code::kUnauthenticated, "who has left this request cannot be told");
  IdentityRef who;
  if (known->by == RememberedBy::kGrant) {
    if (!sources_.limiters) return failure(Code::kUnauthenticated, "tokens and certificates are no longer taken here");
    who = make_identity(known->grant, *sources_.limiters);
  } else {
    const IdentityRef* key = table().find_named(known->grant.name);
    if (!key || (*key)->tenant != known->grant.tenant || env_.wall() >= (*key)->expires)
      return failure(Code::kUnauthenticated,
                     "the key '" + known->grant.name + "' that has left this request is gone, or has expired");
    who = *key;
  }
  return let_in(std::move(who), permission, protocol, as);
}

base::Result<wire::Caller> Authenticator::recall(std::string_view remembered, Permission permission,
                                                 std::string_view protocol) {
  return recall(remembered, permission, protocol, Recalled::kRequest);
}

std::string Authenticator::name_of(const wire::Request& request) {
  Rejection why;
  auto found = identify(request, why);
  return found && *found ? (*found)->name : std::string();
}

// Returns a Caller without an Identity for a request that shows no secret.
base::Result<wire::Caller> Authenticator::admit_known(const wire::Request& request, Permission permission,
                                                      std::string_view protocol) {
  Rejection why;
  auto found = identify(request, why);
  if (!found) {
    log_refused(why, request);
    return found.error();
  }
  if (!*found) return wire::Caller();
  return let_in(*std::move(found), permission, protocol);
}

base::Result<wire::Caller> Authenticator::let_in(IdentityRef identity, Permission permission, std::string_view protocol,
                                                 Recalled as) {
  const wire::Identity& who = *identity;
  if (!who.protocol.empty() && !is_among(protocol, who.protocol))
    return failure(Code::kPermissionDenied,
                   "the key '" + who.name + "' is for the routes of " + comma_separated(who.protocol) + " alone");
  if (!allows(who.roles, permission)) return lacks_role(who, permission);
  return as == Recalled::kCounted ? wire::Caller::enter_counted(std::move(identity), env_.now())
                                  : wire::Caller::enter(std::move(identity), env_.now());
}

// One line for any number of one kind; of the secrets nothing is said.
void Authenticator::log_refused(const Rejection& why, const wire::Request& request) {
  RefusalCount& refused = refused_[size_t(why.kind)];
  ++refused.count;
  if (env_.now() < refused.log_next) return;
  refused.log_next = env_.now() + kLogEvery;
  const uint64_t count = std::exchange(refused.count, 0);
  const std::string_view from = request.peer ? std::string_view(request.peer->address) : std::string_view();
  switch (why.kind) {
    case Rejection::Kind::kMalformed:
      return base::log::warning("requests whose key cannot be read were refused",
                                {{"count", count}, {"latest_from", from}});
    case Rejection::Kind::kUnknown:
      return base::log::warning("requests with keys that are not known were refused",
                                {{"count", count}, {"latest_from", from}});
    case Rejection::Kind::kExpired:
      return base::log::warning("requests with keys that have expired were refused",
                                {{"count", count}, {"latest_key", why.detail}, {"latest_from", from}});
    case Rejection::Kind::kToken:
      return base::log::warning("requests with tokens that are not valid were refused",
                                {{"count", count}, {"latest_reason", why.detail}, {"latest_from", from}});
  }
}

}  // namespace weir::auth
