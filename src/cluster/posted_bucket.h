// PostedBucket: a NatsBucket whose requests block the thread of another Loop, so that what is asked here does not wait
// behind them. Answers come on this one.
#pragma once

#include <string>
#include <utility>

#include "cluster/loop.h"
#include "cluster/nats_bucket.h"

namespace weir::cluster {

class PostedBucket final : public Bucket {
 public:
  // Both outlive this; `home` is the thread of whoever asks.
  PostedBucket(Loop& home, NatsBucket& bucket) : home_(home), bucket_(bucket) {}

  void write(const std::string& key, std::string value, uint64_t expected, OnWritten then) override {
    bucket_.write(key, std::move(value), expected, back(std::move(then)));
  }
  void erase(const std::string& key, uint64_t expected, OnWritten then) override {
    bucket_.erase(key, expected, back(std::move(then)));
  }
  void read(const std::string& key, OnRead then) override { bucket_.read(key, back(std::move(then))); }

 private:
  template <class T>
  std::function<void(base::Result<T>)> back(std::function<void(base::Result<T>)> then) {
    return [&home = home_, then = std::move(then)](base::Result<T> answer) {
      home.post([then, answer = std::move(answer)] { then(answer); });
    };
  }

  Loop& home_;
  NatsBucket& bucket_;
};

}  // namespace weir::cluster
