// Runs CUDA kernels on the host: the same .cu sources, compiled as C++ with the cuda_runtime.h beside this file.
//
// A launch runs block after block on the calling thread and returns when all is done. Every thread of a block is a
// fiber that runs until it waits for others: at a barrier, or where the lanes of a warp meet (shuffles, votes, matrix
// products). The order of a block's warps and lanes is drawn anew for every block, so that a forgotten barrier gives
// other results than those expected. What a launch does wrong is said on stderr and makes it fail:
// - a barrier that some threads of the block do not reach, or reach at another line
// - lanes that meet at different lines, or for lanes that have ended
// - an address that is not aligned for its load, asynchronous copies that nobody waits for
// - a thread of a launch that may begin early and ends without having waited for its inputs, or touches before what a
//   kernel has written; the latter ends the process with a report, and goes unnoticed with AddressSanitizer
// - products of warpgroups whose matrices are not there yet, or whose registers change meanwhile
// - shapes, shared memory that a device would not take
// Memory beyond a buffer or beyond dynamic shared memory is not mapped: touching it ends the process with a report.
// Dynamic shared memory starts as NaN. AddressSanitizer knows of the fibers and finds the rest.
//
// Any thread may launch; one launch runs at a time. x86-64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

struct dim3 {
  uint32_t x = 1, y = 1, z = 1;
  constexpr dim3() = default;
  constexpr dim3(uint32_t a, uint32_t b = 1, uint32_t c = 1) : x(a), y(b), z(c) {}
};

namespace emulator {

constexpr uint32_t kLanes = 32;
constexpr size_t kSharedByDefault = 48 << 10, kSharedAtMost = 99 << 10;  // what every device from sm_80 on has
constexpr size_t kSharedOfHopper = 227 << 10;                            // which only its kernels may ask for

struct Shape {
  dim3 grid, block;
  size_t shared = 0;   // bytes of dynamic shared memory
  bool early = false;  // programmatic stream serialization
};

// 0, or a cudaError_t. `thread` is one thread of the kernel.
int32_t launch(const Shape& shape, size_t shared_limit, const std::function<void()>& thread);
// Why the last launch failed; empty when it did not.
const std::string& failure();

// Launches of kernels that nobody had loaded before, each counted once: a driver that loads lazily is late there.
uint32_t late_loads();

// The parts of device code. `line` and `file` are those of the source.
struct Where {
  const char* file;
  uint32_t line;
};
void barrier(Where where);
struct Slot {
  alignas(16) std::byte bytes[64];
};
// Gives `mine` to the other lanes and waits for theirs: 32 slots, which stay until this lane meets again.
const Slot* meet(uint32_t mask, const void* mine, size_t bytes, Where where);
std::byte* dynamic_shared();
// Waits for the launches before. They are always done here: only that a kernel waits can be checked.
void await_inputs();
// Copies 16 bytes when they are waited for, not before: what is read too early is NaN.
void copy_async(void* to, const void* from, size_t bytes, Where where, size_t room = 16);
void commit_copies();
void wait_copies(uint32_t but_the_last);

// --- Hopper (warpgroup.cc)
// Of dynamic shared memory, which begins at no multiple of more than 16 here.
uint32_t shared_address(const void* at, Where where);
// Until then products do not read what this thread has copied.
void fence_copies();
// d [64][columns] (+)= a [64][16] b, by a warpgroup: the registers of this thread.
struct Product {
  float* d;
  uint32_t columns;
  bool on;                              // or from zeros
  uint64_t a = 0;                       // a descriptor of rows, or
  const uint32_t* registers = nullptr;  // four
  uint64_t b;                           // a descriptor
  bool b_columns = false;               // of columns
};
void multiply(const Product& product, Where where);
void fence_products();
void commit_products();
void wait_products(uint32_t but_the_last);
void make_barrier(void* at, uint32_t count, Where where);
void arrive(void* at, Where where);
// Waits for the end of a phase of that parity. False: nobody can arrive any more.
bool is_over(void* at, uint32_t parity, Where where);

// Ends the launch with a failure.
[[noreturn]] void fail(Where where, const char* what, const Where* other = nullptr);

constexpr size_t kPage = 4096;
// Zeros, in whole pages.
std::byte* map_pages(size_t bytes);
// Memory with an unmapped page behind its end; 16-byte aligned, all bits set.
std::byte* guarded(size_t bytes);
void drop_guarded(std::byte* data);

}  // namespace emulator
