// RecentRequests: keeps in memory how the time of the last requests was spent: GET /console/v1/timelines.
//
// Each shard keeps a bounded ring of ordinary requests, which takes kPerSecond of them a second at most, and another
// one of those that failed or were slow. A request that is kept costs a copy of its record; one that is not, nothing.
// Probes, scrapes and the console's own requests are left out.
//
//   ?id=<request id or trace id>   ?slowest=20   ?last=20 and the parameters of request_filter.h
//   {"kept":312,"requests":[{"time":…, as in the access log …,"parts":[{"name":"queue","start":0.0001,"seconds":0.002},
//   …]}]}
//
// Parts: receive, decode, queue, stage, compute, send; in seconds since the request began, of its last inference where
// there were several.
//
// Bodies are not kept, unless RecentRules::bodies says so (console.bodies). Then the answer to ?id= also has the first
// bytes of both bodies in base64, for callers with the permission admin: "request_body":"…","answer_body":"…". They are
// missing if there was no memory for them.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/ids.h"
#include "base/usage_limiter.h"
#include "dialects/ops/request_filter.h"
#include "wire/body_starts.h"
#include "wire/router.h"

namespace weir::ops {

// One request, as the ring has it.
struct KeptRequest {
  std::string line;  // of the access log
  std::string request_id, trace_id;
  wire::RequestRecord record;  // protocol, model, status, code alone
  base::Duration took{0};
  struct Part {
    std::string_view name;
    base::Duration start{0}, length{0};
  };
  std::array<Part, 6> parts;
  size_t part_count = 0;
  std::shared_ptr<const wire::BodyStart> bodies;  // or null
};
// The parts of an Exchange that has ended. Pure.
void set_parts(KeptRequest& to, const wire::RequestRecord& record, base::Time ended);
// {"time":…,"parts":[…]}, with the bodies that it has
void append_json(std::string& out, const KeptRequest& kept);

// Requests in the order of their ends; the oldest one gives way. Its memory is taken as it fills.
class RequestRing {
 public:
  explicit RequestRing(size_t most) : most_(most) {}
  void put(KeptRequest request);
  size_t size() const { return kept_.size(); }
  // Newest first, while it returns true.
  void each(const std::function<bool(const KeptRequest&)>& visit) const;

 private:
  const size_t most_;
  std::vector<KeptRequest> kept_;
  size_t next_ = 0;
};

struct RecentRules {
  uint32_t kept = 256;                                   // of each ring; 0: off
  base::Duration slow = std::chrono::milliseconds(500);  // slower ones are always kept
  uint64_t bodies = 0;                                   // bytes of each body; 0: nothing
};

// The part that all shards share. Any thread.
class RecentRequests {
 public:
  using Post = std::function<void(base::ShardId, std::function<void()>)>;
  static constexpr double kPerSecond = 200;
  static constexpr size_t kMostShown = 200;  // requests in one answer

  RecentRequests(uint32_t shards, Post post, RecentRules rules);
  ~RecentRequests();

  class ShardRequests;
  // `starts`: what the shard's codecs keep of bodies, as RecentRules::bodies says; null: nothing. Borrowed.
  std::unique_ptr<ShardRequests> on_shard(base::ShardId shard, base::Env& env, wire::Router& router,
                                          wire::BodyStarts* starts = nullptr);

 private:
  struct Question;
  void ask_next(std::shared_ptr<Question> question);

  std::vector<ShardRequests*> shards_;  // each set before its shard starts
  const Post post_;
  const RecentRules rules_;
};

// One shard's side, on its thread.
class RecentRequests::ShardRequests final : public wire::Observer, private wire::Service {
 public:
  ShardRequests(RecentRequests& all, base::ShardId shard, base::Env& env, wire::Router& router,
                wire::BodyStarts* starts);

  void finished(const wire::Exchange& exchange) override;
  void rejected(std::string_view, const wire::PeerInfo&) override {}

 private:
  friend class RecentRequests;
  class Asker;
  void serve(wire::Exchange& exchange, const wire::PathArgs& args) override;
  void search(Question& question) const;

  RecentRequests& all_;
  const base::ShardId shard_;
  base::Env& env_;
  const wire::Router& router_;
  wire::BodyStarts* const starts_;  // or null
  RequestRing ordinary_, notable_;
  base::TokenBucket bucket_{kPerSecond, kPerSecond};
};

}  // namespace weir::ops
