// Fragments with storage of their own, a graph that takes them, and all that a cursor reads as one text.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dialects/evergreen/graph/cursor.h"

namespace weir::evergreen {

using Step = Cursor::Step;

inline const Metadata kText{"text/plain", "", "", ""};

// A fragment that a test sends, with storage of its own.
struct Sent {
  std::string node;
  int64_t seq = 0;
  bool continued = false;
  std::vector<std::string> children;
  bool chunk = false;
  std::string data;
  const Metadata* metadata = nullptr;
};

inline Sent leaf(std::string node, std::string data, int64_t seq = 0, bool continued = false) {
  return {std::move(node), seq, continued, {}, true, std::move(data), seq == 0 ? &kText : nullptr};
}
inline Sent branch(std::string node, std::vector<std::string> children, int64_t seq = 0, bool continued = false) {
  return {std::move(node), seq, continued, std::move(children), false, "", nullptr};
}
inline Sent empty(std::string node, int64_t seq = 0) { return {std::move(node), seq, false, {}, false, "", nullptr}; }

class Graph : public NodeGraph {
 public:
  using NodeGraph::NodeGraph;
  base::Result<Fate> send(const Sent& s) {
    std::vector<std::string_view> children(s.children.begin(), s.children.end());
    Fragment f{s.node, s.seq, s.continued, children, s.chunk, s.metadata, base::Bytes::copy_of(s.data), false};
    return add(f);
  }
  std::string refused(const Sent& s) {
    auto r = send(s);
    return r.has_value() ? "" : std::string(base::name(r.error().code)) + ": " + r.error().text;
  }
};

class Listener : public CursorListener {
 public:
  int news = 0;
  std::function<void()> then;
  void on_news(Cursor&) override {
    ++news;
    if (then) then();
  }
};

// All that there is; `end` says how it stopped.
inline std::string drain(Cursor& c, Step& end) {
  std::string out;
  for (;;) switch (end = c.next()) {
      case Step::kChunk: out += c.data().view(); break;
      case Step::kLeafEnd: break;
      default: return out;
    }
}
inline std::string flat(Graph& g, std::string_view id) {
  Listener l;
  Cursor c(g, **g.node(id), l);
  Step end;
  std::string out = drain(c, end);
  return end == Step::kEnd ? out : end == Step::kWait ? out + "…" : "failed: " + c.status().text;
}

}  // namespace weir::evergreen
