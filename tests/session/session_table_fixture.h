// A table of sessions on a fake clock, and Generates that go well.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/fake_env.h"
#include "session/session_id.h"
#include "session/session_table.h"

namespace weir::session {

using base::SessionId;
using namespace std::chrono_literals;
using Rewind = Append::Rewind;

inline constexpr Tenant kMe{0}, kOther{1};

inline std::vector<uint32_t> row(uint32_t from, uint32_t count) {
  std::vector<uint32_t> out(count);
  for (uint32_t i = 0; i < count; ++i) out[i] = from + i;
  return out;
}
inline msg::Image image(uint32_t start, uint32_t end, size_t bytes = 10) {
  return {base::Bytes::copy_of(std::string(bytes, 'x')), "image/png", start, end};
}

struct Bench {
  explicit Bench(SessionLimits limits = {}) : table(make(limits)) {}
  SessionTable make(SessionLimits limits) {
    return SessionTable(
        env, base::ShardId(2), 5, quota, limits,
        [this](SessionId id, const SessionModel& model, SessionTable::EverLent ever_lent) {
          over.push_back(text(id) + (ever_lent == SessionTable::EverLent::kYes ? " lent " : " fresh ") + model.name);
        });
  }
  SessionId open(Tenant tenant = kMe) { return table.open(tenant, {"chat", "1", {}}).value(); }
  base::Result<Lease> begin(SessionId id, uint32_t offset, Rewind rewind = Rewind::kNo, size_t tokens = 0) {
    return table.begin(kMe, id, {offset, rewind, tokens, 0});
  }
  // A whole Generate that goes well.
  base::Status append(SessionId id, uint32_t offset, std::vector<uint32_t> tokens, std::vector<msg::Image> images = {},
                      Rewind rewind = Rewind::kNo) {
    auto lease = begin(id, offset, rewind, tokens.size());
    if (!lease) return lease.error();
    table.settle(lease->serial, {Outcome::Kind::kAppended, std::move(tokens), std::move(images), {}});
    return {};
  }
  std::vector<uint32_t> tokens(SessionId id) { return table.dump(kMe, id).value(); }
  bool there(SessionId id) { return bool(table.dump(kMe, id)); }

  base::FakeEnv env;
  Quota quota{2};
  std::vector<std::string> over;
  SessionTable table;
};

}  // namespace weir::session
