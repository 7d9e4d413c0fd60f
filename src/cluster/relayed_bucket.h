// RelayedBucket: a bucket that is asked directly, and by way of another node where it does not answer. A write that
// went both ways expects the same revision, so that it is taken once.
//
// One thread. All that it is given outlives it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cluster/peers.h"

namespace weir::cluster {

class RelayedBucket final : public Bucket {
 public:
  // Addresses of nodes that may have the bucket.
  using Addresses = std::function<std::vector<std::string>()>;

  // `peers`: null: there is no other way.
  RelayedBucket(Bucket& direct, Peers* peers, Addresses addresses)
      : direct_(direct), peers_(peers), addresses_(std::move(addresses)) {}

  void write(const std::string& key, std::string value, uint64_t expected, OnWritten then) override;
  void erase(const std::string& key, uint64_t expected, OnWritten then) override;
  void read(const std::string& key, OnRead then) override;

  // Where the last answer came from: an address; empty: the bucket itself.
  const std::string& way() const { return way_; }

 private:
  static constexpr size_t kMostTries = 3;  // nodes that are asked in turn

  using Answered = std::function<void(PeerAnswer)>;
  void relay(PeerRequest request, base::Status why, Answered then);
  void try_next(std::string request, std::vector<std::string> addresses, base::Status why, Answered then);
  OnWritten or_relay(PeerRequest request, OnWritten then);

  Bucket& direct_;
  Peers* const peers_;
  const Addresses addresses_;
  std::string way_;
};

}  // namespace weir::cluster
