#include "wire/output_block.h"

#include <gtest/gtest.h>

#include "wire/h2_output.h"
#include "wire/output.h"

namespace weir::wire {
namespace {

TEST(OutputBlock, TheNextOneTakesWhatTheLastOneGave) {
  base::Slab* block = take_output_block(4096);
  give_output_block(block);
  EXPECT_EQ(take_output_block(4096), block);
  give_output_block(block);
  base::Slab* larger = take_output_block(16384);
  EXPECT_NE(larger, block);
  EXPECT_EQ(larger->capacity, 16384u);
  give_output_block(larger);
  give_output_block(nullptr);
}

// Bytes that somebody still refers to are not written over.
TEST(OutputBlock, NobodyGetsABlockThatIsInUse) {
  base::Slab* block = take_output_block(4096);
  base::retain(block);
  base::Bytes kept(block, block->data, 1);
  give_output_block(block);
  base::Slab* next = take_output_block(4096);
  EXPECT_NE(next, block);
  give_output_block(next);
}

// Two outputs that are written and read in turns share one block; one that still has text keeps its own.
template <class Output, class Put, class Take>
void take_turns(Put put, Take take) {
  Output a, b;
  iovec first{}, second{};
  put(a);
  ASSERT_EQ(a.gather({&first, 1}), 1u);
  take(a);
  put(b);
  ASSERT_EQ(b.gather({&second, 1}), 1u);
  EXPECT_EQ(first.iov_base, second.iov_base);
  put(a);
  ASSERT_EQ(a.gather({&first, 1}), 1u);
  EXPECT_NE(first.iov_base, second.iov_base);
  take(a), take(b);
}

TEST(OutputBlock, ConnectionsShareOne) {
  take_turns<Output>([](Output& out) { out.append("text"); }, [](Output& out) { out.consume(4); });
  take_turns<H2Output>([](H2Output& out) { out.copy("text", 4); }, [](H2Output& out) { out.consumed(4); });
}

}  // namespace
}  // namespace weir::wire
