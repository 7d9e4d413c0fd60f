// Nodes that keep their sessions in one bucket.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/fake_env.h"
#include "cluster/kept_sessions.h"
#include "fake_bucket.h"

namespace weir::cluster {

using base::Code;
using base::Status;
using std::chrono::seconds;
using Place = KeptSessions::Place;
using Where = Place::Where;

inline const Status kNoAnswer = base::failure(Code::kUnknown, "no answer");

inline Node node_named(const std::string& id) {
  Node node;
  node.id = id, node.address = "http://127.0.0.1:1";
  return node;
}

// Nodes in one bucket, whose time the test tells.
struct KeptSessionsTest : testing::Test {
  struct One {
    One(KeptSessionsTest& test, const std::string& id, KeptSessions::Limits limits = {}, std::string key = "")
        : way(test.bucket),
          membership(test.env, way, Rules(), key, node_named(id), listener()),
          ownership(test.bucket, membership, 100, key),
          kept(
              test.env, membership, ownership, [this](const std::string&) { return can_take; }, limits) {
      membership.connected();
    }
    Membership::Listener listener() {
      Membership::Listener out;
      out.fenced = [this] { kept.drop_all(); };
      return out;
    }
    Status can_take;
    Way way;
    Membership membership;
    Ownership ownership;
    KeptSessions kept;
  };

  void pass(base::Duration time, const std::vector<One*>& watching) { cluster::pass(env, bucket, time, watching); }
  Status save(One& one, const std::string& id, const std::string& state) {
    Status out = kNoAnswer;
    one.kept.save(id, state, [&](Status s) { out = std::move(s); });
    bucket.answer();
    return out;
  }
  // The answer of find(), once `time` has passed.
  base::Result<Place> find(One& one, const std::string& id, const std::string& unreachable = "",
                           base::Duration time = {}, std::vector<One*> watching = {}) {
    base::Result<Place> out = kNoAnswer;
    auto heard = std::make_shared<base::Result<Place>*>(&out);
    one.kept.find(id, unreachable, [heard](base::Result<Place> place) {
      if (*heard) **heard = std::move(place);
    });
    bucket.answer();
    pass(time, std::move(watching));
    *heard = nullptr;
    return out;
  }
  std::string value(const std::string& id) {
    auto found = bucket.entries.find("session." + id);
    return found == bucket.entries.end() || found->second.erased ? "" : found->second.value;
  }

  base::FakeEnv env;
  FakeBucket bucket;
};

}  // namespace weir::cluster
