// A Bucket in memory, which answers when told to, and how time passes for nodes that watch it.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <utility>

#include "base/fake_env.h"
#include "cluster/bucket.h"

namespace weir::cluster {

class FakeBucket final : public Bucket {
 public:
  void write(const std::string& key, std::string value, uint64_t expected, OnWritten then) override {
    asked_.push_back([this, key, value, expected, then] {
      auto written = put({key, value, 0, false}, expected);
      if (key != loses_answer) return then(written);
      loses_answer.clear();
      away = true;
      then(base::failure(base::Code::kUnavailable, "lost"));
    });
  }
  void erase(const std::string& key, uint64_t expected, OnWritten then) override {
    asked_.push_back([this, key, expected, then] { then(put({key, "", 0, true}, expected)); });
  }
  void read(const std::string& key, OnRead then) override {
    asked_.push_back([this, key, then] {
      ++reads;
      if (away) return then(base::failure(base::Code::kUnavailable, "away"));
      if (key == broken) return then(base::failure(base::Code::kDataLoss, "broken"));
      if (!entries.contains(key)) return then(base::failure(base::Code::kNotFound, "nothing there"));
      then(entries[key]);
    });
  }
  // Answers all that is asked, and what is asked then.
  void answer() {
    while (!asked_.empty()) {
      auto next = std::move(asked_.front());
      asked_.pop_front();
      next();
    }
  }
  // So many of them only.
  void answer(int requests) {
    for (; requests > 0 && !asked_.empty(); --requests) {
      auto next = std::move(asked_.front());
      asked_.pop_front();
      next();
    }
  }
  // Nobody knows what came of the next one that is asked.
  void refuse_next() {
    auto next = std::move(asked_.front());
    asked_.pop_front();
    const bool was = std::exchange(away, true);
    next();
    away = was;
  }
  // Nothing of what is asked is answered.
  void drop() { asked_.clear(); }
  base::Result<uint64_t> put(KeyValue entry, uint64_t expected) {
    if (away) return base::failure(base::Code::kUnavailable, "away");
    ++writes;
    if (entry.key == meddler) entries[meddler] = {meddler, "garbage", ++revision, false};
    const uint64_t is = entries.contains(entry.key) ? entries[entry.key].revision : 0;
    if (is != expected && expected != kAny) return base::failure(base::Code::kAborted, "another revision");
    entry.revision = ++revision;
    entries[entry.key] = entry;
    return revision;
  }

  std::map<std::string, KeyValue> entries;
  uint64_t revision = 0, writes = 0, reads = 0;
  std::string broken;   // a key of which nothing can be read
  std::string meddler;  // a key that somebody else writes to before each write of a node
  bool away = false;
  std::string loses_answer;  // a key whose next write is done; the bucket is away from then on

 private:
  std::deque<std::function<void()>> asked_;
};

// The way of one node to a bucket, which can be cut.
struct Way final : Bucket {
  explicit Way(Bucket& bucket) : to(bucket) {}
  void write(const std::string& key, std::string value, uint64_t expected, OnWritten then) override {
    cut ? then(base::failure(base::Code::kUnavailable, "cut")) : to.write(key, std::move(value), expected, then);
  }
  void erase(const std::string& key, uint64_t expected, OnWritten then) override {
    cut ? then(base::failure(base::Code::kUnavailable, "cut")) : to.erase(key, expected, then);
  }
  void read(const std::string& key, OnRead then) override {
    cut ? then(base::failure(base::Code::kUnavailable, "cut")) : to.read(key, then);
  }
  Bucket& to;
  bool cut = false;
};

// Time passes; all nodes of `watching`, pointers to what has a `membership`, are told what the bucket has.
template <class Ones>
void pass(base::FakeEnv& env, FakeBucket& bucket, base::Duration time, const Ones& watching) {
  constexpr base::Duration kStep = std::chrono::milliseconds(100);
  for (base::Duration at{0}; at < time; at += kStep) {
    bucket.answer();
    env.advance(kStep);
    bucket.answer();
    for (auto* one : watching)
      for (const auto& [key, entry] : bucket.entries) one->membership.on_entry(entry);
  }
}

}  // namespace weir::cluster
