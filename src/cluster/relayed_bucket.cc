#include "cluster/relayed_bucket.h"

#include <algorithm>
#include <utility>

namespace weir::cluster {

using base::Code;
using What = PeerRequest::What;

Bucket::OnWritten RelayedBucket::or_relay(PeerRequest request, OnWritten then) {
  return [this, request = std::move(request), then = std::move(then)](base::Result<uint64_t> revision) mutable {
    if (revision || revision.error().code != Code::kUnavailable) return way_.clear(), then(std::move(revision));
    relay(std::move(request), revision.error(),
          [then](PeerAnswer answer) { answer ? then(answer->revision) : then(answer.error()); });
  };
}

void RelayedBucket::write(const std::string& key, std::string value, uint64_t expected, OnWritten then) {
  PeerRequest request{What::kWrite, key, expected, value};
  direct_.write(key, std::move(value), expected, or_relay(std::move(request), std::move(then)));
}

void RelayedBucket::erase(const std::string& key, uint64_t expected, OnWritten then) {
  direct_.erase(key, expected, or_relay({What::kErase, key, expected, {}}, std::move(then)));
}

void RelayedBucket::read(const std::string& key, OnRead then) {
  direct_.read(key, [this, key, then = std::move(then)](base::Result<KeyValue> entry) {
    if (entry || entry.error().code != Code::kUnavailable) return way_.clear(), then(std::move(entry));
    relay({What::kRead, key, 0, {}}, entry.error(), [key, then](PeerAnswer answer) {
      if (answer) answer->key = key;
      then(std::move(answer));
    });
  });
}

// The one that has answered last comes first.
void RelayedBucket::relay(PeerRequest request, base::Status why, Answered then) {
  if (!peers_) return then(std::move(why));
  auto addresses = addresses_();
  auto last = std::find(addresses.begin(), addresses.end(), way_);
  if (last != addresses.end()) std::rotate(addresses.begin(), last, last + 1);
  if (addresses.size() > kMostTries) addresses.resize(kMostTries);
  std::reverse(addresses.begin(), addresses.end());
  try_next(write_request(request), std::move(addresses), std::move(why), std::move(then));
}

void RelayedBucket::try_next(std::string request, std::vector<std::string> addresses, base::Status why, Answered then) {
  if (addresses.empty()) return then(std::move(why));
  const std::string address = std::move(addresses.back());
  addresses.pop_back();
  peers_->ask(address, request,
              [this, request, address, addresses, why, then](base::Result<std::string> answered) mutable {
                PeerAnswer answer = answered ? read_answer(*answered) : PeerAnswer(answered.error());
                const Code code = answer ? Code::kOk : answer.error().code;
                if (code == Code::kUnavailable || code == Code::kPermissionDenied)
                  return try_next(std::move(request), std::move(addresses), std::move(why), std::move(then));
                way_ = address;
                then(std::move(answer));
              });
}

}  // namespace weir::cluster
