// A session that is kept, and the other nodes that keep it.
#pragma once

#include <string>

#include "bench.h"
#include "fake_handover.h"
#include "session/session_id.h"

namespace weir::evergreen {

using support::FakeExchange;

inline const char* const kKeep = "actions { name: 'KEEP' outputs { name: 'session' id: 'sid' } }";
inline const std::string kNoSuch = "NOT_FOUND: action RESUME: there is no such session";

inline Options with(FakeHandover& nodes) {
  Options options;
  options.handover = &nodes;
  options.most_searches = 2;
  return options;
}

inline pb::SessionMessage resume(const std::string& id, const std::string& more = "") {
  auto m = Bench::parse("actions { name: 'RESUME' outputs { name: 'nodes' id: 'there' } " + more + " }");
  v1::ResumeConfig config;
  config.set_session(id);
  add_config(m, config);
  return m;
}

struct EvergreenKeep : testing::Test {
  // Answers all that is asked of other nodes, also what follows from that a little later.
  void answer() {
    for (int i = 0; i < 2; ++i) {
      nodes.answer();
      t.later_turn();
    }
  }
  std::string& kept_of(const std::string& id) { return nodes.kept[*session::parse_session_id(id)]; }
  std::string keep(FakeExchange& x) {
    t.send(x, kKeep);
    EXPECT_EQ(t.leaf(x, "sid"), "…") << "the id is said when the session is kept";
    answer();
    return t.leaf(x, "sid");
  }
  // Saves of one session begin that far apart. What is due is saved, and the next one may begin at once.
  void pause(FakeExchange& x) {
    for (int i = 0; i < 2; ++i) {
      t.rpc.advance(x, std::chrono::milliseconds(100));
      answer();
    }
  }
  std::string status(const FakeExchange& x) { return Bench::status(x); }

  FakeHandover nodes;
  Bench t{with(nodes)};
};

}  // namespace weir::evergreen
