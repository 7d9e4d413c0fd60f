// The emulator's parts that work beside a block's threads: copies, products of warpgroups, barriers in shared memory.
#pragma once

#include <string>

#include "emulator.h"

namespace emulator {

// --- the machine's (emulator.cc)
uint32_t current_thread();
// Lets the other threads go on, until one of them wakes those that wait, or until none can go on. False: it waits to be
// woken, and nobody can do that any more.
enum class Until : uint8_t { kWoken, kIdle };
bool wait(Until until, Where where);
void wake_waiting();

// --- of a block (copies.cc)
void begin_async(uint32_t threads, std::byte* shared, size_t bytes);
// Things that a thread may not end with; empty: there are none.
std::string left_by(uint32_t thread);
// Whether a kernel of this launch has asked for addresses in shared memory: what only Hopper's do.
bool is_for_hopper();
// The 16 bytes at an address of shared memory. They must be there for products: a copy that is under way, or that its
// thread has not fenced, fails the launch.
const std::byte* shared_chunk(uint32_t address, Where where);

// --- of its products (warpgroup.cc)
void begin_products(uint32_t threads);
bool has_products(uint32_t thread);

}  // namespace emulator
