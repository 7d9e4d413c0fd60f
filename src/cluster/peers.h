// Peers: what nodes ask each other over their direct connections, so that a node which NATS does not reach can go on:
//
//   request = "promise " id SP incarnation LF                  of the node that asks: see promises.h
//           / "read " key " 0" LF / "erase " key SP revision LF
//           / "write " key SP revision LF bytes                for it, in the bucket
//           / "leave " session " 0" LF owner                   the session, for a client who came to the node that asks
//   answer  = "ok " number LF                                  the incarnation of who promises
//           / "ok " revision " entry" LF bytes / "ok " revision " mark" LF
//           / "no " code SP text LF
//
// A node writes and reads for another one only where the cluster has a secret, which both have shown (peer_answers.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/env.h"
#include "base/status.h"
#include "cluster/bucket.h"

namespace weir::cluster {

struct PeerRequest {
  enum class What : uint8_t { kPromise, kRead, kWrite, kErase, kLeave } what = What::kPromise;
  std::string key;      // kPromise: the id of who asks; kLeave: that of the session
  uint64_t number = 0;  // the revision that is expected; kPromise: the incarnation of who asks
  std::string value;    // kWrite; kLeave: whose it is
};
using PeerAnswer = base::Result<Bucket::KeyValue>;  // kPromise: its revision is the incarnation of who promises

inline constexpr size_t kLargestPeerMessage = (1 << 20) + 1024;

std::string write_request(const PeerRequest& request);
// Errors: INVALID_ARGUMENT.
base::Result<PeerRequest> read_request(std::string_view text);
std::string write_answer(const PeerAnswer& answer);
// Errors: those that it says; UNAVAILABLE where it is no answer.
PeerAnswer read_answer(std::string_view text);

class Peers {
 public:
  // Errors: UNAVAILABLE, where nobody knows whether it has come there.
  using Then = std::function<void(base::Result<std::string>)>;
  static constexpr base::Duration kPatience = std::chrono::seconds(1);

  // Asks the node at that address ("http://10.0.0.7:8080"). Answers once, later, on the caller's thread.
  virtual void ask(const std::string& address, std::string request, Then then) = 0;

 protected:
  ~Peers() = default;
};

}  // namespace weir::cluster
