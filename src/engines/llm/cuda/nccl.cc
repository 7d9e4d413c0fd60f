// NCCL's functions are declared here, as nccl.h of version 2 has them since 2.4: the toolkit does not have that file.
// https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api.html
//
// A rank's calls come from one thread; another one may abort, and from then on calls do nothing. ncclCommAbort ends the
// kernels that are queued at once, and frees the communicator, for which it waits as long as a graph has captured it:
// so it has a thread of its own. It must not begin while a call is under way, and waits for the rank's lock; but not
// for ever, because a call may hang for the very reason that it is aborted. NCCL allows that to nonblocking
// communicators alone, which these are not: after so long a wait there is nothing better.
#include "engines/llm/cuda/nccl.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "engines/llm/cuda/kernels.h"

namespace weir::llm::cuda {
namespace {

using NcclComm = void*;
using NcclResult = int;
constexpr NcclResult kDone = 0, kNcclInProgress = 7;
constexpr int kNcclFloat32 = 7, kNcclSum = 0;
constexpr std::chrono::seconds kAbortPatience{1}, kFreePatience{2};

struct Nccl {
  NcclResult (*init_all)(NcclComm* out, int count, const int* devices);
  NcclResult (*destroy)(NcclComm);
  NcclResult (*abort)(NcclComm);
  NcclResult (*async_error)(NcclComm, NcclResult* out);
  NcclResult (*all_reduce)(const void* from, void* to, size_t count, int type, int operation, NcclComm, cudaStream_t);
  NcclResult (*broadcast)(const void* from, void* to, size_t count, int type, int root, NcclComm, cudaStream_t);
};

// Null where the library or one of the functions is missing. Never closed.
const Nccl* nccl() {
  static const std::unique_ptr<Nccl> all = []() -> std::unique_ptr<Nccl> {
    void* library = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library) return nullptr;
    auto out = std::make_unique<Nccl>();
    bool good = true;
    auto find = [&]<class F>(const char* name, F& function) {
      function = reinterpret_cast<F>(::dlsym(library, name));
      good = good && function;
    };
    find("ncclCommInitAll", out->init_all), find("ncclCommDestroy", out->destroy);
    find("ncclCommAbort", out->abort), find("ncclCommGetAsyncError", out->async_error);
    find("ncclAllReduce", out->all_reduce), find("ncclBroadcast", out->broadcast);
    return good ? std::move(out) : nullptr;
  }();
  return all.get();
}

// The runtime's own error goes first: it says whether the device is lost.
Code code_of(NcclResult result) {
  if (result == kDone || result == kNcclInProgress) return 0;
  const auto code = Code(cudaGetLastError());
  return code ? code : Code(kRefused);
}

struct Shared {  // with the thread that aborts
  explicit Shared(NcclComm with) : comm(with) {}

  std::timed_mutex mutex;
  std::atomic<NcclComm> comm;  // null: aborted
  std::promise<void> freed;    // after an abort
};
struct Rank : Communicator {
  explicit Rank(NcclComm comm) : shared(std::make_shared<Shared>(comm)) {}
  std::shared_ptr<Shared> shared;
};
Rank& of(Communicator* communicator) { return *static_cast<Rank*>(communicator); }

// A call of the rank's own, unless it is aborted.
template <class Call>
Code in_turn(Communicator* communicator, Call&& call) {
  Shared& rank = *of(communicator).shared;
  std::lock_guard lock(rank.mutex);
  NcclComm comm = rank.comm;
  return comm ? code_of(call(comm)) : 0;
}

// The same, on the rank's device.
template <class Call>
Code queued(const Launch& launch, Communicator* communicator, Call&& call) {
  if (auto error = cudaSetDevice(launch.device)) return Code(error);
  return in_turn(communicator, [&](NcclComm comm) { return call(comm, cudaStream_t(launch.stream)); });
}

}  // namespace

Code open_communicators(const int32_t* devices, uint32_t ranks, Communicator** out) {
  if (!nccl()) return kNoLibrary;
  std::vector<NcclComm> comms(ranks, nullptr);
  if (auto code = code_of(nccl()->init_all(comms.data(), int(ranks), devices))) return code;
  for (uint32_t i = 0; i < ranks; ++i) out[i] = new Rank(comms[i]);
  return 0;
}

Code close_communicator(Communicator* communicator) {
  const std::unique_ptr<Rank> rank(&of(communicator));
  if (NcclComm comm = rank->shared->comm) return code_of(nccl()->destroy(comm));
  const auto freed = rank->shared->freed.get_future().wait_for(kFreePatience);
  return freed == std::future_status::ready ? 0 : Code(kRefused);
}

Code all_reduce(const Launch& launch, Communicator* communicator, float* values, size_t count) {
  return queued(launch, communicator, [&](NcclComm comm, cudaStream_t stream) {
    return nccl()->all_reduce(values, values, count, kNcclFloat32, kNcclSum, comm, stream);
  });
}

Code broadcast(const Launch& launch, Communicator* communicator, float* values, size_t count) {
  return queued(launch, communicator, [&](NcclComm comm, cudaStream_t stream) {
    return nccl()->broadcast(values, values, count, kNcclFloat32, 0, comm, stream);
  });
}

Code communicator_error(Communicator* communicator) {
  return in_turn(communicator, [](NcclComm comm) {
    NcclResult said = kDone;
    const NcclResult asked = nccl()->async_error(comm, &said);
    return asked == kDone ? said : asked;
  });
}

void abort_communicator(Communicator* communicator) {
  auto rank = of(communicator).shared;
  NcclComm comm = rank->comm.exchange(nullptr);
  if (!comm) return;
  std::thread([rank = std::move(rank), comm] {
    std::unique_lock lock(rank->mutex, std::defer_lock);
    if (lock.try_lock_for(kAbortPatience)) lock.unlock();  // calls from now on find it aborted
    (void)nccl()->abort(comm);
    rank->freed.set_value();
  }).detach();
}

}  // namespace weir::llm::cuda
