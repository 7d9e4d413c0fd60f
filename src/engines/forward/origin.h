// Origin: one server that runs a forwarded model, as all shards see it; Target: all of them, and how they are spoken
// to.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "engines/forward/kind.h"
#include "engines/forward/load_report.h"
#include "engines/forward/options.h"
#include "engines/forward/sequence_table.h"
#include "net/address.h"
#include "net/live_tls.h"

namespace weir::forward {

// Any thread.
struct Origin {
  using Addresses = std::vector<net::Endpoint>;  // of one server: tried in their order

  // `place`: which of its name's servers it is.
  Origin(net::Url url, size_t place, Addresses addresses) {
    name_it(std::move(url), place);
    if (!addresses.empty()) move_to(std::move(addresses));
  }
  Origin() { name_it({}); }  // a place for one: name it before it is present
  // From now on it is that server; before it is present. By one thread at a time. Whoever reads the last one's name
  // still has it.
  void name_it(net::Url url, size_t place = 0);

  const net::Url& url() const { return who().url; }
  const std::string& name() const { return who().name; }  // as errors have it: "triton.example:8001"
  uint64_t number() const { return who().number; }        // for rendezvous()
  // It gets no calls before the watch has admitted it: the model runs here, too, and has to be the same. Written before
  // it is present for the first time.
  bool on_probation = false;
  // Its name has a server for it. False: it gets no calls.
  std::atomic<bool> present{false};
  std::atomic<uint32_t> generation{0};  // of its addresses

  std::atomic<uint32_t> outstanding{0};  // calls that it has, of all shards
  std::atomic<uint32_t> broken{0};       // calls in a row that its connections have lost
  // Whether calls go there while others are healthy. False after kEjectAfter lost calls, or failed checks; true again
  // after a good check. Then it gets its share of calls bit by bit, within kSlowReturn.
  std::atomic<bool> healthy{true};
  std::atomic<base::Time> returned{base::Time()};

  static constexpr uint32_t kEjectAfter = 3;
  static constexpr base::Duration kSlowReturn = std::chrono::seconds(10), kReportLife = std::chrono::seconds(10);

  bool able() const { return present.load(std::memory_order_acquire) && healthy.load(std::memory_order_relaxed); }
  void eject() { healthy.store(false, std::memory_order_relaxed); }
  void admit(base::Time now) {
    broken.store(0, std::memory_order_relaxed);
    if (healthy.load(std::memory_order_relaxed)) return;
    returned.store(now, std::memory_order_relaxed);
    healthy.store(true, std::memory_order_relaxed);
  }
  // Outstanding work as it counts when two origins are compared: more for one that has just come back, and with what it
  // has said of itself within kReportLife.
  double load(base::Time now) const;
  void report(const LoadReport& report, base::Time now);

  Addresses addresses() const;
  // Another server is behind it from now on: connections to the last one get no more calls.
  void move_to(Addresses addresses);

 private:
  struct Who {
    net::Url url;
    std::string name;
    uint64_t number;
  };
  const Who& who() const { return *who_.load(std::memory_order_acquire); }

  std::deque<Who> known_;  // all that it has been: each is small, and there are as many as servers have come
  std::atomic<const Who*> who_{nullptr};

  // Its own words: not of one moment together, which a choice between two origins does not need.
  std::atomic<double> utilization_{0}, waiting_{0};
  std::atomic<base::Time> reported_{base::Time()};

  mutable std::mutex mutex_;
  Addresses addresses_;  // under mutex_
};

struct Target {
  // Each request has the key in that field from now on; in `authorization` it is a bearer's.
  void set_key(const std::string& field, const std::string& secret);

  Options options;
  std::shared_ptr<const net::LiveTls> tls;       // null: no origin has TLS
  std::string key_field = "authorization", key;  // of each request; "" = none
  std::deque<Origin> origins;                    // places for all servers that there may be
  std::shared_ptr<const Kind> kind;
  SequenceTable sequences;

  // A name has an origin for each of its servers; an address is one server. Used on the shard that watches the names.
  struct Name {
    net::Url url;
    std::vector<Origin*> places;
    bool fixed = false;   // an address
    bool asking = false;  // it is being looked up
  };
  std::deque<Name> names;

  // Reads the key and the files of the kind (`folder`: the model's own), and looks the names up, which blocks. Errors:
  // INVALID_ARGUMENT, FAILED_PRECONDITION (files); UNAVAILABLE where no origin has an address, which is worth another
  // try.
  static base::Result<std::shared_ptr<Target>> make(Options options, const std::string& folder);

  // A node that has the model.
  struct Member {
    net::Url url;
    Origin::Addresses addresses;
  };
  // With options.members: these have it now. Those that stay, and those that come back, keep their places; a new one
  // may get that of one that has no calls any more, because it has gone, or, where that is not enough, because it
  // cannot be reached. That one takes nobody's place then while it is a member. False: there are more than places. By
  // one thread at a time.
  bool update(const std::vector<Member>& members);
  // The name has these addresses now: servers that stay keep their places. True: something has changed.
  bool update(Name& name, const std::vector<net::Endpoint>& found);
  size_t present() const;  // origins
  bool has_room(const Origin& origin) const {
    return origin.outstanding.load(std::memory_order_relaxed) < options.max_outstanding;
  }

  // The origin that a call goes to: of two that are healthy, chosen by `random`, the one with less to do; of all where
  // none is healthy, unless the model runs here, too. `session` != 0: always the same one while the same ones are
  // present. `tried`: not that one, where there is another. Null where all have max_outstanding calls.
  Origin* choose(base::Time now, uint64_t random, uint64_t session, const Origin* tried);
  // The same for the first request of a sequence: one that is healthy, where there is one, which then has the sequence
  // (`sequences`).
  Origin* choose_for_start(uint64_t session);
  // The same for a prompt, by its prefix_hash(): the healthy origin that its prefix prefers, unless that has a quarter
  // more than its share of all calls; then the next one (consistent hashing with bounded loads, Mirrokni et al. 2018).
  Origin* choose_by_prefix(base::Time now, uint64_t random, uint64_t prefix, const Origin* tried);

 private:
  Origin* place_of(const std::string& name);  // null: there is none
  Origin* place_of_broken();                  // of an origin that gets no calls, and loses it; null: there is none

  std::set<std::string> displaced_;  // names of members that have lost their place in that way
};

}  // namespace weir::forward
