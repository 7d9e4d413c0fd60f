// NatsBucket: the Bucket in JetStream: a key-value bucket whose entries are gone after kLife. Requests block the loop's
// thread for as long as one may take (kPatience), and fail at once while there is no connection; nothing blocks a
// shard.
//
// The server may be away at the start, and for any time: the connection is made again and again, and so is the bucket,
// which a server may have lost. What comes of the watch is kept once for each key until the loop takes it, and for so
// many keys: whoever floods the bucket cannot fill this process.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cluster/bucket.h"
#include "cluster/loop.h"

namespace weir::cluster {

class NatsBucket final : public Bucket {
 public:
  static constexpr base::Duration kLife = std::chrono::seconds(30);
  struct Options {
    std::string url;              // nats://[user:password@]host:port, or several with commas; tls://…
    std::string name = "weir";    // of the bucket: [A-Za-z0-9_-]
    std::string node;             // as NATS's own list of connections has it
    base::Duration life = kLife;  // of an entry behind its last write
    uint64_t most_bytes = uint64_t(1) << 30;
    enum class Store : uint8_t { kMemory, kFile } store = Store::kMemory;
    std::string watch = ">";   // the keys whose changes are told: "node.*"; empty: none
    size_t largest = 1 << 20;  // value, in bytes: what is longer is told and read as an empty one
  };
  // All on the loop's thread.
  struct Listener {
    std::function<void()> connected;
    std::function<void(const std::string& why)> disconnected;  // also when the first try fails; then once
    std::function<void(const KeyValue&)> changed;
  };
  static constexpr base::Duration kPatience = std::chrono::seconds(1), kRetry = std::chrono::seconds(1);
  // Changes that wait for the loop: what is beyond is not told.
  static constexpr size_t kMostKeys = 4096, kMostBytes = 16 << 20;

  NatsBucket(Loop& loop, Options options, Listener listener);
  ~NatsBucket();  // after stop()

  // On the loop's thread. stop(): nothing is called any more.
  void start();
  void stop();

  // Any thread; the answers come on the loop's. None comes once it has stopped.
  void write(const std::string& key, std::string value, uint64_t expected, OnWritten then) override;
  void erase(const std::string& key, uint64_t expected, OnWritten then) override;
  void read(const std::string& key, OnRead then) override;

  // Any thread. For good: requests that wait are not made, and nobody is told.
  void abandon();

  // This machine's address as the server sees it; empty while there is no connection. On the loop's thread.
  std::string client_ip() const;

 private:
  struct Parts;
  const std::unique_ptr<Parts> parts_;
};

}  // namespace weir::cluster
