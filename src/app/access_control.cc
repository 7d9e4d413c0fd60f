#include "app/access_control.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "app/cluster_node.h"
#include "auth/key_file.h"
#include "base/attempt.h"
#include "base/log.h"
#include "base/text_file.h"
#include "models/yaml.h"
#include "net/tls.h"
#include "net/url.h"
#include "wire/access.h"

namespace weir::app {
namespace {

using wire::Role;
using wire::Roles;

constexpr auto kLookEvery = std::chrono::seconds(1);
constexpr Roles kEverything{Role::kHealth, Role::kMetrics, Role::kInfer, Role::kAdmin};

base::Result<std::vector<auth::Key>> read_key_file(const std::string& path, base::Pipes pipes) {
  auto text = base::read_text_file(path, pipes, auth::kMostKeyFileBytes);
  if (!text) return base::failure(text.error().code, "auth.keys_file: " + text.error().text);
  auto tree = models::parse_yaml(*text, path, {auth::kMostKeyFileBytes, auth::kMostKeyFileNodes});
  if (!tree) return tree.error();
  return auth::read_keys(*tree, path);
}

// Each secret is a tenant of its own. It reads metrics, too: some protocols have theirs among their routes.
void add_own_keys(const dialects::OwnKeys& own, std::vector<auth::Key>& keys) {
  size_t number = 0;
  for (const auto& secret : own.secrets) {
    auth::Key key;
    key.grant.name = std::string(own.setting) + "[" + std::to_string(number++) + "]";
    key.grant.roles = {Role::kInfer, Role::kMetrics};
    key.grant.protocol = own.protocol;
    key.digest = auth::digest_of(secret);
    keys.push_back(std::move(key));
  }
}

}  // namespace

std::vector<std::string> reachable_addresses(const std::vector<std::string>& addresses) {
  std::vector<std::string> out;
  for (const auto& address : addresses)
    if (!address.starts_with("unix:") && !wire::is_loopback_name(address)) out.push_back(address);
  return out;
}

const std::vector<std::string>& admin_addresses(const Config& config) {
  return config.admin_listen.empty() ? config.listen : config.admin_listen;
}

AccessControl::~AccessControl() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

// A pipe's keys stay what they were.
base::Result<dialects::OwnKeys> AccessControl::read_own(const dialects::Dialect& dialect, base::Pipes pipes) {
  auto own = dialect.own_keys(pipes);
  const auto before = own_keys_.find(dialect.name());
  if (!own && own.error().code == base::Code::kFailedPrecondition && before != own_keys_.end()) return before->second;
  if (own) own_keys_.insert_or_assign(dialect.name(), *own);
  return own;
}

base::Result<std::vector<auth::Key>> AccessControl::read(base::Pipes pipes) {
  std::vector<auth::Key> keys;
  if (!config_.auth.keys_file.empty()) {
    std::error_code unknown;
    if (pipes == base::Pipes::kRead) listed_piped_ = std::filesystem::is_fifo(config_.auth.keys_file, unknown);
    auto listed = read_key_file(config_.auth.keys_file, pipes);
    const bool stays = !listed && listed.error().code == base::Code::kFailedPrecondition && listed_piped_;
    if (!listed && !stays) return listed;
    if (listed) listed_ = std::move(*listed);
    keys = listed_;
  }
  for (const auto& served : config_.dialects) {
    if (!served.on) continue;
    auto own = read_own(*served.dialect, pipes);
    if (!own) return own.error();
    add_own_keys(*own, keys);
  }
  if (cluster_key_) keys.push_back(*cluster_key_);
  return keys;
}

// Calls of other nodes, of every protocol that engines/forward speaks. Where nobody needs a key, neither do they.
base::Status AccessControl::make_cluster_key() {
  auto settings = cluster_settings(config_);
  if (!settings) return settings.error();
  if (!settings->on() || settings->secret.empty()) return {};
  if (!config_.cluster.listen.empty()) return {};  // nodes come to a listener of their own: NodeCallers
  if (!has_keys_ && !config_.auth.jwt.on() && anonymous_.has(Role::kInfer)) return {};
  has_keys_ = true;
  auto& key = cluster_key_.emplace();
  key.grant.name = "cluster.secret";
  key.grant.roles = {Role::kInfer};
  key.digest = auth::digest_of(cluster::Secrets::derive(settings->secret).call_key);
  return {};
}

// Whoever has shown a certificate of tls.client_ca is known.
Roles AccessControl::decide() const {
  const auto& words = config_.auth.anonymous;
  Roles roles;
  for (const auto& word : words)
    if (auto role = auth::parse_role(word)) roles.add(*role);
  if (words != std::vector<std::string>{"auto"}) return roles;
  if (has_keys_ || config_.auth.jwt.on() || !config_.auth.certificates.empty()) return {Role::kHealth};
  Roles all = kEverything;
  const bool reachable = config_.tls.client_ca.empty() && !reachable_addresses(admin_addresses(config_)).empty();
  if (reachable && config_.auth.admin == AuthConfig::Admin::kGuarded) all.remove(Role::kAdmin);
  return all;
}

base::Status AccessControl::open_tokens() {
  const auth::JwtSettings& jwt = config_.auth.jwt;
  if (!config_.auth.certificates.empty() && config_.tls.client_ca.empty())
    return base::invalid("auth.certificates: expected tls.client_ca, which the certificates of clients are signed by");
  if (auto s = auth::check_jwt_settings(jwt); !s.ok()) return s;
  if (!jwt.keys_url.empty()) {
    if (auto url = net::parse_url(jwt.keys_url); !url) return base::invalid("auth.jwt.keys_url: " + url.error().text);
    auto tls = net::TlsContext::for_client(jwt.ca_file);
    return tls ? base::Status() : base::invalid("auth.jwt.ca_file: " + tls.error().text);
  }
  if (jwt.keys_file.empty()) return {};
  tokens_watch_ = FileWatch({jwt.keys_file});
  auto keys = auth::read_jwt_keys(jwt.keys_file, base::Pipes::kRead);
  if (!keys) return keys.error();
  token_keys_.use(std::move(*keys));
  return {};
}

base::Status AccessControl::open() {
  if (auto s = open_tokens(); !s.ok()) return s;
  keys_watch_ = FileWatch({config_.auth.keys_file});
  auto keys = read(base::Pipes::kRead);
  if (!keys) return keys.error();
  has_keys_ = !config_.auth.keys_file.empty() || !keys->empty();
  anonymous_ = decide();
  if (auto s = make_cluster_key(); !s.ok()) return s;
  if (cluster_key_) keys->push_back(*cluster_key_);
  keys_.use(*keys);
  return {};
}

// Whether strangers reach an address that serves no admin methods: an Authenticator keeps others' requests from them.
bool AccessControl::observed_elsewhere() const {
  return !config_.admin_listen.empty() && config_.tls.client_ca.empty() && !reachable_addresses(config_.listen).empty();
}

std::unique_ptr<auth::Authenticator> AccessControl::make_authenticator(base::Env& env,
                                                                       auth::Authenticator::Sources sources) const {
  const bool nobody_known = !has_keys_ && !sources.tokens && !sources.certificates;
  if (nobody_known && anonymous_ == kEverything && !observed_elsewhere()) return nullptr;
  if (has_keys_) sources.keys = &keys_;
  return std::make_unique<auth::Authenticator>(env, sources, anonymous_);
}

void AccessControl::start() {
  if (reads_files()) thread_ = std::thread([this] { watch(); });
}

base::Status AccessControl::reload() {
  std::unique_lock lock(mutex_);
  const uint64_t number = ++asked_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return ending_ || answered_ >= number; });
  if (answered_ >= number) return outcome_;
  return base::failure(base::Code::kUnavailable, "the server is shutting down");
}

void AccessControl::watch() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    changed_.wait_for(lock, kLookEvery, [this] { return ending_ || asked_ > answered_; });
    if (ending_) return;
    const uint64_t asked = asked_;
    const bool all = asked > answered_;
    if (all && on_reload_) on_reload_();
    lock.unlock();
    base::Status outcome;
    auto thrown = base::attempt("reading keys again", [&] { all ? void(outcome = read_all()) : look(); });
    lock.lock();
    if (!all) continue;
    answered_ = asked, outcome_ = thrown.ok() ? std::move(outcome) : std::move(thrown);
    changed_.notify_all();
  }
}

void AccessControl::look() {
  if (auto seen = keys_watch_.look(); seen != FileWatch::Seen::kNothing) (void)read_again(seen);
  if (auto seen = tokens_watch_.look(); seen != FileWatch::Seen::kNothing) (void)read_tokens_again(seen);
}

base::Status AccessControl::read_all() {
  keys_watch_.skip();
  auto keys = read_again(FileWatch::Seen::kChanged);
  tokens_watch_.skip();
  auto tokens = read_tokens_again(FileWatch::Seen::kChanged);
  return keys.ok() ? tokens : keys;
}

// The log has one line for each change.
base::Status AccessControl::read_again(FileWatch::Seen why) {
  auto keys = read(base::Pipes::kRefused);
  if (!keys && why == FileWatch::Seen::kUnread) return keys.error();
  report(config_.auth.keys_file, keys ? base::Status() : keys.error());
  if (!keys) {
    base::log::error("the keys stay as they are", {{"reason", keys.error().text}});
    return keys.error();
  }
  keys_watch_.took();
  keys_.use(*keys);
  base::log::info("keys were read", {{"keys", uint64_t(keys->size())}});
  return {};
}

base::Status AccessControl::read_tokens_again(FileWatch::Seen why) {
  const std::string& file = config_.auth.jwt.keys_file;
  if (file.empty()) return {};
  auto keys = auth::read_jwt_keys(file);
  if (!keys && why == FileWatch::Seen::kUnread) return keys.error();
  report(file, keys ? base::Status() : keys.error());
  if (!keys) {
    base::log::error("the keys of tokens stay as they are", {{"reason", keys.error().text}});
    return keys.error();
  }
  tokens_watch_.took();
  base::log::info("keys of tokens were read", {{"keys", uint64_t((*keys)->keys().size())}});
  token_keys_.use(std::move(*keys));
  return {};
}

}  // namespace weir::app
