#include "app/shard_access.h"

#include <utility>

#include "base/check.h"
#include "net/fetch.h"
#include "net/url.h"

namespace weir::app {
namespace {

// The URL is the administrator's own, so it may lead to addresses that are not public; that redirects are not followed,
// and what the answer may be, holds for it as for any other.
wire::FetchRules rules_for(const auth::JwtSettings& settings) {
  wire::FetchRules rules;
  auto url = net::parse_url(settings.keys_url);
  if (!url) return rules;
  rules.schemes = {url->scheme == net::Url::Scheme::kHttps ? "https" : "http"};
  rules.hosts = {url->authority()};
  rules.networks = {"0.0.0.0/0", "::/0"};
  rules.ca_file = settings.ca_file;
  return rules;
}

}  // namespace

ShardAccess::ShardAccess(net::Shard& shard, AccessControl& control) : control_(control) {
  const AuthConfig& config = control.config();
  auth::Authenticator::Sources sources;
  if (config.jwt.on()) {
    sources.tokens = &tokens_.emplace(config.jwt, control.token_keys(), control.limiters(), control.failures());
    shard.at_turn_end([this] { tokens_->refresh(); });
  }
  if (!config.certificates.empty())
    sources.certificates = &certificates_.emplace(config.certificates, control.limiters());
  sources.limiters = &control.limiters();
  authenticator_ = control.make_authenticator(shard.env(), sources);
  if (!config.jwt.keys_url.empty() && shard.id() == base::ShardId(0)) load_token_keys(shard);
}

ShardAccess::~ShardAccess() {
  if (source_) control_.on_reload(nullptr);
}

// AccessControl::open() has looked at the URL and the certificates.
void ShardAccess::load_token_keys(net::Shard& shard) {
  const auto& settings = control_.config().jwt;
  auto fetcher = net::WebFetcher::make(shard, rules_for(settings), auth::KeySet::kMostBytes);
  base::check(bool(fetcher), "the rules of auth.jwt.keys_url were checked");
  fetcher_ = std::move(*fetcher);
  auth::TokenKeys& keys = control_.token_keys();
  source_ = std::make_unique<auth::JwksSource>(shard.env(), *fetcher_, settings.keys_url,
                                               [&keys](auto set) { keys.use(std::move(set)); });
  auth::JwksSource& source = *source_;
  keys.on_missing([&shard, &keys, &source] {
    shard.post([&keys, &source] {
      source.key_is_missing();
      keys.looked();
    });
  });
  control_.on_reload([&shard, &source] { shard.post([&source] { source.reload(); }); });
  shard.post([&source] { source.start(); });
}

}  // namespace weir::app
