// A laboratory for the transport: codecs that echo and obey a few commands, a server on loopback, and blocking clients.
//
// The program defines wire::make_sniff, make_h1 and make_h2 itself (lab.cc), so that net is tested without a protocol.
// Each codec names itself in front of its first output ("sniff:", "h1:", "h2:"), then echoes. A line that begins with
// '!' is a command:
//   !close    answer "bye\n", then the codec is finished
//   !flood    answer "calm\n", then the codec is finished, and its peer has flooded it
//   !open     an exchange is open from now on: not idle      !done     it is over
//   !stop     does not want to read until its next tick()       !hold    the same, from now on
//   !send N   answer N bytes, a pattern by position       !last N   the same, and then the codec is finished
//   !over N   the same, and nothing is read meanwhile
//   !throw    std::bad_alloc, at once or (!throw later) from pending(); !throw a library's: another exception
#pragma once

#include <netinet/in.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/memory_ledger.h"
#include "base/metrics.h"
#include "net/fd.h"
#include "net/server.h"
#include "net/shard.h"
#include "wire/codec.h"
#include "wire/forwarded.h"

namespace weir::net::lab {

// The reports of a server's codecs; also their CodecEnv::intake.
class Lab final : public wire::Intake {
 public:
  wire::Plan begin(wire::Exchange&) override { return {}; }
  void whole(wire::Exchange&) override {}
  void closed(wire::Exchange&) override {}
  void rejected(std::string_view reason, const wire::PeerInfo& peer) override;

  // Waits until `condition`, which is looked at after each report and each millisecond. False after 20 seconds.
  bool until(const std::function<bool()>& condition);
  void report(const std::function<void()>& change = {});
  std::vector<std::string> rejects();

  std::atomic<int> codecs{0}, made{0}, eofs{0}, closes{0}, announced{0}, refused{0}, received{0};
  std::atomic<int> stopped{0};
  std::string canned;             // set before start: the answer to anything that ends in an empty line, then finished
  std::atomic<bool> busy{false};  // codecs begin with an open exchange

  // While `slow`, each drain() and closed() of a codec makes its turn long, and is counted for the turn that it was in.
  std::atomic<bool> slow{false};
  std::atomic<int> turn{0};
  std::vector<int> slow_turns;  // on the shard
  void work();

 private:
  std::recursive_mutex mutex_;  // a condition may ask for the rejects
  std::condition_variable_any changed_;
  std::vector<std::string> rejects_;
};

// The heap, and a ledger that a test fills.
class CountedHeap final : public base::SlabSource {
 public:
  base::Slab* take(size_t bytes) override { return base::heap_slab(bytes); }
  base::MemoryLedger* ledger() override { return &memory; }
  static constexpr uint64_t kBudget = 16 << 20;
  base::MemoryLedger memory{kBudget, 0, {70, 85, 92, 97}};
};

struct Rig {
  explicit Rig(ServerOptions options = {}, int shards = 1, wire::Limits its_limits = {});
  ~Rig();
  uint16_t port(size_t i = 0) const;
  std::string metric(const std::string& series) const;  // its value in the exposition, or nothing

  base::Metrics metrics;
  base::Clients clients;
  // Those who are trusted are 127.9.0.0/16.
  wire::TrustedProxies proxies{base::NetworkList::parse({"127.9.0.0/16"}).value(),
                               wire::TrustedProxies::Field::kXForwardedFor, clients};
  Lab lab;
  CountedHeap slabs;
  wire::Limits limits;
  std::vector<std::unique_ptr<Shard>> shards;
  std::unique_ptr<Server> server;
};

ServerOptions loopback();  // 127.0.0.1:0

// One that runs.
struct Running : Rig {
  explicit Running(ServerOptions options = loopback(), int shards = 1, wire::Limits its_limits = {});
};

// A blocking socket whose reads and writes fail after 20 seconds.
class Peer {
 public:
  // `from`: the address that it comes from, where that matters.
  explicit Peer(uint16_t port, const char* address = "127.0.0.1", const char* from = nullptr);
  explicit Peer(const std::string& unix_path);

  bool connected() const { return bool(fd_); }
  int fd() const { return fd_.get(); }
  bool send(std::string_view text);
  std::string read(size_t n);           // exactly n bytes, less at the end
  std::string read_all();               // to the end
  bool ended();                         // FIN or reset comes next
  int error() const { return error_; }  // errno of the last read that failed
  void half_close();
  void reset();

 private:
  Fd fd_;
  int error_ = 0;
};

std::string pattern(size_t n);

}  // namespace weir::net::lab
