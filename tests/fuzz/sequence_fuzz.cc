// Any bytes as what clients do with stateful sequences: arrivals with any controls, ends, aborts, silence. Requests of
// a sequence run one by one and in order, no more sequences have slots than there are, and each request has one end.
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include "require.h"
#include "sched/sequence_batcher.h"

namespace {

using weir::sched::SequenceBatcher;
using Key = std::pair<uint64_t, uint64_t>;  // tenant, id

class Clients {
 public:
  Clients(size_t slots, size_t waiting)
      : slots_(slots), batcher_({slots, waiting, std::chrono::seconds(10), {25, 1}}) {}

  void step(uint8_t what, uint8_t how) {
    if (what < 160)
      arrive({2 * (what % 3), 1 + what % 5}, how);
    else if (what < 220)
      finish(how);
    else
      pass(how);
    check();
  }
  void end() {
    while (!running_.empty() || batcher_.waiting() > 0) {
      while (!running_.empty()) finish(0);
      pass(200);
      check();
    }
    weir::require(accepted_ == over_, "each request has one end");
  }

 private:
  void arrive(const Key& key, uint8_t flags) {
    auto& call = calls_.emplace_back();
    const SequenceBatcher::Request request{&call, (flags & 1) != 0, (flags & 2) != 0};
    if (batcher_.arrive({key.first, {0, key.second}}, request, now_) != SequenceBatcher::Arrival::kAccepted) return;
    line_[key].push_back(&call);
    key_of_[&call] = key;
    ++accepted_;
  }
  void finish(uint8_t how) {
    if (running_.empty()) return;
    const size_t at = how % running_.size();
    const auto run = running_[at];
    running_.erase(running_.begin() + std::ptrdiff_t(at));
    busy_.erase(key_of_.at(run.request.call));
    ++over_;
    batcher_.finish(*run.sequence, how > 240 ? SequenceBatcher::Finish::kAborts : SequenceBatcher::Finish::kAnswered,
                    now_, dropped_);
  }
  void pass(uint8_t seconds) {
    now_ += std::chrono::seconds(seconds % 16);
    batcher_.expire(now_);
    if (seconds % 4 == 0)
      batcher_.drop([&](const weir::msg::Call& call) { return (uintptr_t(&call) >> 8) % 5 == seconds % 5; }, now_,
                    dropped_);
  }
  void check() {
    for (auto* call : dropped_) {
      weir::require(std::erase(line_[key_of_.at(call)], call) == 1, "a request that waited is dropped once");
      ++over_;
    }
    dropped_.clear();
    for (SequenceBatcher::Run run; batcher_.next(run);) {
      const Key& key = key_of_.at(run.request.call);
      weir::require(line_[key].front() == run.request.call, "requests of a sequence run in order");
      line_[key].pop_front();
      weir::require(busy_.insert(key).second, "one request of a sequence runs");
      running_.push_back(run);
    }
    size_t waiting = 0;
    for (const auto& [key, line] : line_) waiting += line.size();
    weir::require(waiting == batcher_.waiting(), "requests that wait are counted");
    weir::require(batcher_.sequences() <= slots_, "slots are bounded");
  }

  const size_t slots_;
  SequenceBatcher batcher_;
  weir::base::Time now_ = weir::base::Time(std::chrono::seconds(1000));
  std::deque<weir::msg::Call> calls_;
  std::map<Key, std::deque<weir::msg::Call*>> line_;
  std::map<weir::msg::Call*, Key> key_of_;
  std::vector<SequenceBatcher::Run> running_;
  std::set<Key> busy_;
  std::vector<weir::msg::Call*> dropped_;
  size_t accepted_ = 0, over_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2 || size > 4096) return 0;
  Clients clients(1 + data[0] % 4, 1 + data[1] % 8);
  for (size_t i = 2; i + 1 < size; i += 2) clients.step(data[i], data[i + 1]);
  clients.end();
  return 0;
}
