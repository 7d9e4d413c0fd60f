// PeerAnswers: this node's side of what other nodes ask it directly (peers.h): it writes into the bucket for a node
// that NATS does not reach, and promises that it takes nobody for dead. One thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "cluster/membership.h"
#include "cluster/peers.h"

namespace weir::cluster {

class PeerAnswers {
 public:
  // kNo: where there is no secret, whoever reaches this server could write.
  enum class Relays : bool { kNo, kYes };
  static constexpr size_t kMostAtOnce = 256;
  static constexpr size_t kMostLeaving =
      64;  // sessions that this node is asked to let go: promises have room beside them

  // The buckets of nodes and of sessions, as NATS has them: what is asked here is not handed on. All outlive this.
  // `leave`: lets go of a session of this node; null: nobody is asked to.
  using Leave = std::function<void(const std::string& id, const std::string& whose, std::function<void(base::Status)>)>;
  PeerAnswers(Membership& membership, Bucket& nodes, Bucket& sessions, Relays relays, Leave leave = {})
      : membership_(membership), nodes_(nodes), sessions_(sessions), relays_(relays), leave_(std::move(leave)) {}

  // Answers once, now or later.
  void answer(std::string_view request, std::function<void(std::string)> then);

 private:
  void relay(const PeerRequest& request, Bucket& bucket, std::function<void(PeerAnswer)> then);

  Membership& membership_;
  Bucket& nodes_;
  Bucket& sessions_;
  const Relays relays_;
  const Leave leave_;
  size_t under_way_ = 0, leaving_ = 0;
};

}  // namespace weir::cluster
