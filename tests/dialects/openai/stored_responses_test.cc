// StoredResponses: ids.
#include "dialects/openai/responses/stored.h"

#include <gtest/gtest.h>

#include <string>

namespace weir::openai {
namespace {

using responses::StoredResponse;
using responses::StoredResponses;

constexpr base::Time kNow{};

StoredResponse text_of(size_t bytes) { return {"", base::Bytes::adopt(std::string(bytes, 'x')), {}}; }

TEST(StoredResponses, EachTenantHasNamesOfItsOwn) {
  StoredResponses stored(std::chrono::minutes(1), 1 << 20);
  EXPECT_TRUE(stored.put(1, "chatcmpl-run-1", text_of(10), kNow));
  EXPECT_FALSE(stored.put(1, "chatcmpl-run-1", text_of(10), kNow));
  ASSERT_TRUE(stored.put(2, "chatcmpl-run-1", text_of(20), kNow));
  EXPECT_EQ(stored.find(1, "chatcmpl-run-1", kNow)->turns.size(), 10u);
  EXPECT_EQ(stored.find(2, "chatcmpl-run-1", kNow)->turns.size(), 20u);
  EXPECT_TRUE(stored.remove(1, "chatcmpl-run-1", kNow));
  EXPECT_FALSE(stored.find(1, "chatcmpl-run-1", kNow));
  EXPECT_TRUE(stored.find(2, "chatcmpl-run-1", kNow));
  EXPECT_TRUE(stored.put(1, "chatcmpl-run-1", text_of(10), kNow));
}

}  // namespace
}  // namespace weir::openai
