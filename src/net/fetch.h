// WebFetcher: GET of http: and https: URLs that clients chose, within FetchRules. One per shard, on its thread.
//
// A fetch: the URL is read once, strictly, and checked against the list of hosts; its name is looked up once; every
// address has to be allowed; the connection goes to one of the addresses that were checked, so that a name that changes
// its mind leads nowhere else. One connection per fetch; nothing of ours goes along but the request: no cookies, no
// credentials, no proxy. Redirects are not followed, codings not undone. kAtOnce fetches run, the others wait in line.
#pragma once

#include <memory>
#include <string_view>

#include "net/fetch_policy.h"
#include "net/resolver.h"
#include "net/shard.h"
#include "wire/fetcher.h"

namespace weir::net {

class WebFetcher final : public wire::Fetcher {
 public:
  static constexpr size_t kAtOnce = 32;

  // `resolver`: null for the system's resolver. Errors: the rules' own, and
  // FAILED_PRECONDITION for a ca_file that cannot be used.
  static base::Result<std::unique_ptr<WebFetcher>> make(Shard& shard, const wire::FetchRules& rules, uint64_t max_bytes,
                                                        std::unique_ptr<Resolver> resolver = nullptr);
  ~WebFetcher();  // its fetches have ended

  base::Result<std::unique_ptr<Fetch>> fetch(std::string_view uri, Receiver& receiver) override;

  struct Parts;

 private:
  explicit WebFetcher(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace weir::net
