// JwksSource: the keys of an issuer, loaded from its URL again and again, on one shard.
//
// It loads the document at start(), every kInterval, and when a token names a key that is not in it, but then not
// within kLeastBetween of the last time. A document that cannot be loaded or read changes nothing: the last good one
// stays, the log says why, and it is tried again.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "auth/jwks.h"
#include "base/env.h"
#include "base/status.h"
#include "wire/fetcher.h"

namespace weir::auth {

class JwksSource final : private wire::Fetcher::Receiver {
 public:
  static constexpr base::Duration kInterval = std::chrono::minutes(10), kLeastBetween = std::chrono::minutes(1),
                                  kRetryFirst = std::chrono::seconds(5);

  // Called on the shard with every document that differs from the one before.
  using Publish = std::function<void(std::shared_ptr<const KeySet>)>;

  // `fetcher` must allow the URL and documents of KeySet::kMostBytes; it is borrowed, as `env` is.
  JwksSource(base::Env& env, wire::Fetcher& fetcher, std::string url, Publish publish);
  ~JwksSource();

  void start() { load(); }
  // A token has named a key that is not there.
  void key_is_missing();
  // Loads now, whenever it was loaded last: the administrator has asked.
  void reload();

 private:
  void load();
  void load_in(base::Duration wait);
  void failed(const base::Status& why);
  base::Status take(std::string_view document);

  // wire::Fetcher::Receiver
  bool on_growth(uint64_t held) override { return held <= KeySet::kMostBytes; }
  void on_fetched(base::Result<base::Bytes> bytes) override;

  base::Env& env_;
  wire::Fetcher& fetcher_;
  const std::string url_;
  const Publish publish_;
  std::unique_ptr<wire::Fetcher::Fetch> fetch_;  // under way, or null
  base::TimerId timer_ = base::TimerId::kNone;
  base::Time began_{};  // the last load
  base::Duration retry_ = kRetryFirst;
  std::string document_;  // the last good one
};

}  // namespace weir::auth
