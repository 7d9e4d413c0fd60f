#include "auth/jwks_source.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace weir::auth {

JwksSource::JwksSource(base::Env& env, wire::Fetcher& fetcher, std::string url, Publish publish)
    : env_(env), fetcher_(fetcher), url_(std::move(url)), publish_(std::move(publish)) {}

JwksSource::~JwksSource() { env_.cancel(timer_); }

void JwksSource::key_is_missing() {
  if (!fetch_ && env_.now() - began_ >= kLeastBetween) load();
}

void JwksSource::reload() {
  if (!fetch_) load();
}

void JwksSource::load() {
  env_.cancel(std::exchange(timer_, base::TimerId::kNone));
  began_ = env_.now();
  auto fetch = fetcher_.fetch(url_, *this);
  if (!fetch) return failed(fetch.error());
  fetch_ = std::move(*fetch);
}

void JwksSource::load_in(base::Duration wait) {
  timer_ = env_.at(env_.now() + wait, [this] {
    timer_ = base::TimerId::kNone;
    load();
  });
}

void JwksSource::on_fetched(base::Result<base::Bytes> bytes) {
  fetch_.reset();
  if (!bytes) return failed(bytes.error());
  if (auto s = take(bytes->view()); !s.ok()) return failed(s);
  retry_ = kRetryFirst;
  load_in(kInterval);
}

// Until there is a first document every token is refused, so it is asked for again soon; later there is time.
void JwksSource::failed(const base::Status& why) {
  base::log::warning("the keys of auth.jwt.keys_url cannot be loaded; the ones from before stay",
                     {{"url", url_}, {"reason", why.text}, {"have_keys", !document_.empty()}});
  load_in(document_.empty() ? retry_ : kLeastBetween);
  retry_ = std::min(retry_ * 2, kLeastBetween);
}

base::Status JwksSource::take(std::string_view document) {
  if (document == document_) return {};
  auto set = KeySet::parse_jwks(document, KeySet::Secrets::kRefused);
  if (!set) return set.error();
  for (const auto& reason : set->left_out())
    base::log::warning("a key of auth.jwt.keys_url is not used", {{"url", url_}, {"reason", reason}});
  base::log::info("keys of auth.jwt.keys_url loaded", {{"url", url_}, {"keys", set->keys().size()}});
  document_ = document;
  publish_(std::make_shared<const KeySet>(std::move(*set)));
  return {};
}

}  // namespace weir::auth
