// Hopper's products of warpgroups, and barriers in shared memory, as the PTX ISA describes them ("Asynchronous
// warpgroup level matrix instructions", "mbarrier").
//
// A product reads shared memory when it is asked for or when it is waited for, at random; its results are there when
// they are waited for, and NaN before. A thread computes its own elements of a result.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "async.h"
#include "cuda_runtime.h"
#include "engines/llm/cuda/bf16.h"

namespace emulator {
namespace {

constexpr uint32_t kWarps = 4, kDepth = 16;  // of a group; elements that a product sums over

struct Asked {
  Product product;
  std::array<std::array<uint32_t, 4>, 4> rows;  // registers of the lanes that have this lane's two rows of a
  Where where;
};
// The registers that some products add to.
struct Sums {
  float* d;
  std::vector<float> values;
  std::vector<Asked> later;
  uint32_t group;  // of the last of them
};
struct Worker {
  std::vector<Sums> under_way;
  uint32_t groups = 0;  // committed
  bool fenced = false;
};
std::vector<Worker> workers;  // by thread of the block

Worker& mine() { return workers[current_thread()]; }

bool happens() {
  static std::minstd_rand random(std::random_device{}());
  return random() % 2 == 0;
}

// --- matrices in shared memory ---------------------------------------------------------------------------------------
struct Descriptor {
  uint32_t start, leading, stride;  // bytes

  Descriptor(uint64_t bits, Where where)
      : start(uint32_t(bits & 0x3fff) << 4),
        leading(uint32_t(bits >> 16 & 0x3fff) << 4),
        stride(uint32_t(bits >> 32 & 0x3fff) << 4) {
    if (bits >> 62 != 1) fail(where, "a matrix that is not swizzled by 128 bytes: not known here");
    if (bits >> 49 & 7) fail(where, "a matrix with a base offset: not known here");
  }
};

// With T = 8 elements of 16 bytes, rows are K-major ((8,m),(T,2k)) : ((8T,SBO),(1,T)) and columns MN-major
// ((T,8,m),(8,k)) : ((1,T,LBO),(8T,SBO)), both after Swizzle<3,4,3>: bits 4 to 6 of an address by bits 7 to 9.
float element(const Descriptor& m, uint32_t n, uint32_t k, bool columns, Where where) {
  const uint32_t at = columns ? m.start + n / 64 * m.leading + n % 64 * 2 + k / 8 * m.stride + k % 8 * 128
                              : m.start + n / 8 * m.stride + n % 8 * 128 + k * 2;
  const uint32_t address = at ^ (at >> 7 & 7) << 4;
  uint16_t bits;
  std::memcpy(&bits, shared_chunk(address, where) + address % 16, 2);
  return weir::llm::cuda::widen_bf16(bits);
}

// Rows of a, of lane l of warp w 16 w + l / 4 and 8 more.
using Row = std::array<float, kDepth>;
Row row_of(const Asked& asked, uint32_t half) {
  Row out;
  const uint32_t thread = current_thread(), row = thread / kLanes % kWarps * 16 + thread % kLanes / 4 + half * 8;
  for (uint32_t k = 0; k < kDepth; ++k) {
    if (!asked.product.registers) {
      out[k] = element(Descriptor(asked.product.a, asked.where), row, k, false, asked.where);
      continue;
    }
    const uint32_t both = asked.rows[k % 8 / 2][half + k / 8 * 2];
    out[k] = __uint_as_float(k % 2 ? both & 0xffff0000u : both << 16);
  }
  return out;
}

void add(const Asked& asked, std::vector<float>& values) {
  const Descriptor b(asked.product.b, asked.where);
  const Row rows[2] = {row_of(asked, 0), row_of(asked, 1)};
  for (uint32_t i = 0; i < values.size(); i += 4)
    for (uint32_t j = 0; j < 2; ++j) {
      const uint32_t column = i / 4 * 8 + current_thread() % 4 * 2 + j;
      double sums[2] = {values[i + j], values[i + 2 + j]};
      for (uint32_t k = 0; k < kDepth; ++k) {
        const float right = element(b, column, k, asked.product.b_columns, asked.where);
        sums[0] += double(rows[0][k]) * right, sums[1] += double(rows[1][k]) * right;
      }
      values[i + j] = float(sums[0]), values[i + 2 + j] = float(sums[1]);
    }
}

// Registers of d that products add to: those that are under way, or what is in d.
Sums& sums_of(const Product& product) {
  const size_t count = product.columns / 2;
  auto& all = mine().under_way;
  auto found = std::find_if(all.begin(), all.end(), [&](const Sums& s) { return s.d == product.d; });
  if (found == all.end()) {
    all.push_back({product.d, std::vector<float>(product.d, product.d + count), {}, 0});
    found = std::prev(all.end());
    std::fill_n(product.d, count, NAN);
  }
  if (!product.on) found->values.assign(count, 0), found->later.clear();
  return *found;
}

void deliver(Sums& sums) {
  for (const Asked& asked : sums.later) {
    if (asked.product.registers &&
        std::memcmp(asked.product.registers, asked.rows[current_thread() % 4].data(), sizeof(uint32_t) * 4) != 0)
      fail(asked.where, "registers that change while their product is under way");
    add(asked, sums.values);
  }
  std::copy(sums.values.begin(), sums.values.end(), sums.d);
}

// --- barriers --------------------------------------------------------------------------------------------------------
struct Mbarrier {
  uint16_t mark, count, pending, phase;
};
constexpr uint16_t kMark = 0x6d62;

Mbarrier& barrier_at(void* at, Where where) {
  auto& out = *static_cast<Mbarrier*>(at);
  if (out.mark != kMark) fail(where, "a barrier that nobody has made");
  return out;
}

}  // namespace

void begin_products(uint32_t threads) { workers.assign(threads, {}); }

bool has_products(uint32_t thread) { return !workers[thread].under_way.empty(); }

void multiply(const Product& product, Where where) {
  if (!mine().fenced) fail(where, "a product without a fence of what its registers hold");
  struct Given {
    uint64_t a, b;
    uint32_t registers[4];
  } given{product.a, product.b, {}};
  if (product.registers) std::memcpy(given.registers, product.registers, sizeof given.registers);
  const Slot* slots = meet(0xffffffffu, &given, sizeof given, where);
  Asked asked{product, {}, where};
  for (uint32_t i = 0; i < 4; ++i) {
    const auto of = from_lane<Given>(slots, current_thread() % kLanes / 4 * 4 + i);
    if (of.a != given.a || of.b != given.b) fail(where, "lanes that multiply different matrices");
    std::copy(std::begin(of.registers), std::end(of.registers), asked.rows[i].begin());
  }
  Sums& sums = sums_of(product);
  sums.group = mine().groups;
  if (sums.later.empty() && happens())
    add(asked, sums.values);
  else
    sums.later.push_back(asked);
}

void fence_products() { mine().fenced = true; }

void commit_products() { ++mine().groups; }

void wait_products(uint32_t but_the_last) {
  Worker& worker = mine();
  worker.fenced = false;
  std::erase_if(worker.under_way, [&](Sums& sums) {
    if (sums.group + but_the_last >= worker.groups) return false;
    deliver(sums);
    return true;
  });
}

void make_barrier(void* at, uint32_t count, Where where) {
  if (reinterpret_cast<uintptr_t>(at) % alignof(uint64_t) || count == 0 || count > 0xffff)
    fail(where, "a barrier that is not aligned, or for nobody");
  *static_cast<Mbarrier*>(at) = {kMark, uint16_t(count), uint16_t(count), 0};
}

void arrive(void* at, Where where) {
  Mbarrier& barrier = barrier_at(at, where);
  if (--barrier.pending == 0) {
    barrier.pending = barrier.count, ++barrier.phase;
    wake_waiting();
  }
  if (happens()) (void)wait(Until::kIdle, where);  // whoever arrives too early finds that others went on
}

bool is_over(void* at, uint32_t parity, Where where) {
  for (Mbarrier& barrier = barrier_at(at, where); barrier.phase % 2 == parity % 2;)
    if (!wait(Until::kWoken, where)) return false;
  return true;
}

}  // namespace emulator
