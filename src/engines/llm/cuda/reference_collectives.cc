// The collectives on the host: each rank's call waits for the others'.
#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "engines/llm/cuda/kernels.h"
#include "engines/llm/cuda/reference.h"

namespace weir::llm::cuda::reference {
namespace {

// Where the ranks' threads meet.
struct Meeting {
  explicit Meeting(uint32_t ranks) : values(ranks, nullptr), counts(ranks, 0) {}

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<float*> values;  // of those that are here
  std::vector<size_t> counts;
  uint32_t here = 0;
  uint64_t held = 0;  // meetings that are over
  bool aborted = false, uneven = false;
};

struct HostCommunicator : Communicator {
  std::shared_ptr<Meeting> meeting;
  uint32_t rank = 0;
};
HostCommunicator& host(Communicator* communicator) { return *static_cast<HostCommunicator*>(communicator); }

// In the order of the ranks.
void add_up(Meeting& meeting) {
  float* to = meeting.values[0];
  for (size_t rank = 1; rank < meeting.values.size(); ++rank)
    for (size_t i = 0; i < meeting.counts[0]; ++i) to[i] += meeting.values[rank][i];
}

// The others get what the first rank has.
void spread(Meeting& meeting) {
  for (size_t rank = 1; rank < meeting.values.size(); ++rank)
    std::copy_n(meeting.values[0], meeting.counts[0], meeting.values[rank]);
}

// The last one to come does the work.
enum class First : uint8_t { kSum, kNothing };
Code meet(Communicator* communicator, float* values, size_t count, First first) {
  const HostCommunicator own = host(communicator);  // which may be closed after an abort, while this still waits
  Meeting& meeting = *own.meeting;
  std::unique_lock lock(meeting.mutex);
  if (meeting.aborted) return 0;
  meeting.values[own.rank] = values, meeting.counts[own.rank] = count;
  const uint64_t held = meeting.held;
  if (++meeting.here < meeting.values.size()) {
    meeting.changed.wait(lock, [&] { return meeting.held != held || meeting.aborted; });
    return meeting.uneven ? Code(kBadShape) : 0;
  }
  for (size_t other : meeting.counts) meeting.uneven = meeting.uneven || other != count;
  if (!meeting.uneven && first == First::kSum) add_up(meeting);
  if (!meeting.uneven) spread(meeting);
  meeting.here = 0, ++meeting.held;
  meeting.changed.notify_all();
  return meeting.uneven ? Code(kBadShape) : 0;
}

Code open_ranks(const int32_t*, uint32_t ranks, Communicator** out) {
  auto meeting = std::make_shared<Meeting>(ranks);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    auto communicator = std::make_unique<HostCommunicator>();
    communicator->meeting = meeting, communicator->rank = rank;
    out[rank] = communicator.release();
  }
  return 0;
}

Code close_rank(Communicator* communicator) {
  delete &host(communicator);
  return 0;
}

Code sum_ranks(const Launch&, Communicator* communicator, float* values, size_t count) {
  return meet(communicator, values, count, First::kSum);
}

Code copy_first(const Launch&, Communicator* communicator, float* values, size_t count) {
  return meet(communicator, values, count, First::kNothing);
}

Code no_error(Communicator*) { return 0; }

void abort_ranks(Communicator* communicator) {
  Meeting& meeting = *host(communicator).meeting;
  std::lock_guard lock(meeting.mutex);
  meeting.aborted = true;
  meeting.changed.notify_all();
}

}  // namespace

const Collectives kCollectives = {open_ranks, close_rank, sum_ranks, copy_first, no_error, abort_ranks};

}  // namespace weir::llm::cuda::reference
