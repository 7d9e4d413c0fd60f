// A kind of origins that a test answers for, and where the Events of Calls arrive.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/memory_ledger.h"
#include "engines/forward/kind.h"
#include "engines/forward/origin_conn.h"

namespace weir::forward {

// Is with an origin until the test ends it.
struct FakeAttempt final : Attempt {
  FakeAttempt(Receiver& its_receiver, std::map<std::string, size_t>& its_origins)
      : receiver(its_receiver), at(its_origins) {}
  Started start(OriginConn& conn) override { return ++at[conn.origin().name()], Started(); }
  void let_go() override {}
  void give_up_late(base::Status status) override { receiver.on_over({std::move(status), From::kOrigin, {}}); }
  bool answered() const override { return true; }

  Receiver& receiver;
  std::map<std::string, size_t>& at;
};

struct FakeKind final : Kind {
  net::ClientConn::Http http() const override { return {}; }
  std::unique_ptr<Attempt> make_attempt(const Asked&, Attempt::Receiver& receiver) const override {
    ++made;
    auto out = std::make_unique<FakeAttempt>(receiver, at);
    last = out.get();
    return out;
  }
  std::unique_ptr<Questions> make_questions(net::Shard&, OriginConn&, const Options&) const override { return {}; }
  base::Status fits(const msg::Call&, const msg::ModelSpec&) const override { return {}; }

  mutable int made = 0;
  mutable std::map<std::string, size_t> at;  // how many each origin got
  mutable FakeAttempt* last = nullptr;
};

struct Slabs final : base::SlabSource {
  base::Slab* take(size_t bytes) override { return base::heap_slab(bytes); }
  base::MemoryLedger* ledger() override { return &memory; }
  base::MemoryLedger memory{64 << 10};
};

struct Events final : msg::Home {
  void post(std::vector<msg::Mail>& burst) override {
    for (auto& mail : burst) post_here(std::move(mail));
    burst.clear();
  }
  void post_here(msg::Mail&& mail) override { all.push_back(std::move(mail.event)); }
  std::vector<msg::Event> all;
};

}  // namespace weir::forward
