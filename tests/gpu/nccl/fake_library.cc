// The functions of NCCL that are used, with the types that nccl.h gives them.
#include <thread>

#include "fake_nccl.h"

namespace {

using weir::gpu::FakeNccl;

FakeNccl fake;

struct Comm {
  int rank;
};

int queue(const void* from, void* to, size_t count, int type, void* comm, void* stream) {
  fake.from = from, fake.to = to, fake.count = count, fake.type = type, fake.stream = stream;
  fake.rank = static_cast<Comm*>(comm)->rank, ++fake.queued;
  while (fake.hangs && fake.aborted == 0) std::this_thread::yield();
  return fake.fails;
}

int free_when_unused(void* comm) {
  while (fake.graphs > 0) std::this_thread::yield();
  delete static_cast<Comm*>(comm);
  ++fake.freed;
  return 0;
}

}  // namespace

extern "C" {

FakeNccl* weir_fake_nccl() { return &fake; }

int ncclCommInitAll(void** out, int count, const int* devices) {
  if (fake.fails) return fake.fails;
  for (int i = 0; i < count; ++i) out[i] = new Comm{devices[i]};
  fake.opened += count;
  return 0;
}
int ncclCommDestroy(void* comm) {
  ++fake.destroyed;
  return free_when_unused(comm);
}
int ncclCommAbort(void* comm) {
  ++fake.aborted;
  return free_when_unused(comm);
}
int ncclCommGetAsyncError(void*, int* out) {
  *out = fake.broken;
  return fake.fails;
}
int ncclAllReduce(const void* from, void* to, size_t count, int type, int operation, void* comm, void* stream) {
  fake.operation = operation;
  return queue(from, to, count, type, comm, stream);
}
int ncclBroadcast(const void* from, void* to, size_t count, int type, int root, void* comm, void* stream) {
  fake.root = root;
  return queue(from, to, count, type, comm, stream);
}

}  // extern "C"
