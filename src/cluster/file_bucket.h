// FileBucket: a bucket in JetStream's files, with a connection and a thread of its own, which its requests block:
// neither beats nor other buckets wait behind them. It is called, and answers, on the thread of whoever uses it.
#pragma once

#include <string>
#include <utility>

#include "cluster/bucket.h"
#include "cluster/loop.h"
#include "cluster/nats_bucket.h"
#include "cluster/posted_bucket.h"

namespace weir::cluster {

class FileBucket final : public Bucket {
 public:
  // `home` outlives this. What is stored, and watched, is set here; the rest is the caller's.
  FileBucket(Loop& home, NatsBucket::Options options)
      : bucket_(loop_, in_files(std::move(options)), {[] {}, [](const auto&) {}, {}}), posted_(home, bucket_) {}

  void start() {
    loop_.post([this] { bucket_.start(); });
    loop_.start();
  }
  // Waits. Nothing is answered any more.
  void stop();

  void write(const std::string& key, std::string value, uint64_t expected, OnWritten then) override {
    posted_.write(key, std::move(value), expected, std::move(then));
  }
  void erase(const std::string& key, uint64_t expected, OnWritten then) override {
    posted_.erase(key, expected, std::move(then));
  }
  void read(const std::string& key, OnRead then) override { posted_.read(key, std::move(then)); }

 private:
  static NatsBucket::Options in_files(NatsBucket::Options options) {
    options.store = NatsBucket::Options::Store::kFile;
    options.watch = "";
    return options;
  }

  Loop loop_;
  NatsBucket bucket_;
  PostedBucket posted_;
};

}  // namespace weir::cluster
