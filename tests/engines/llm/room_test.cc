// A model of tokens reports the context and the queue that it has.
#include <gtest/gtest.h>

#include "engines/llm/echo_model.h"
#include "engines/llm/options.h"

namespace weir::llm {
namespace {

uint32_t context(std::map<std::string, std::string> parameters) {
  msg::ModelSpec wanted;
  wanted.name = "p";
  wanted.parameters = std::move(parameters);
  auto model = load_echo(wanted);
  EXPECT_TRUE(model.has_value());
  return model ? model->spec.text->max_length : 0;
}

// The echo model's keys and values are a byte for each position.
TEST(TokenRoom, TheContextIsWhatKeysAndValuesHaveRoomFor) {
  EXPECT_EQ(context({}), 32768u);
  EXPECT_EQ(context({{"kv_cache", "1KiB"}}), 1024u - 16) << "a block beside is for positions that are looked at again";
  EXPECT_EQ(context({{"kv_cache", "1KiB"}, {"block_size", "64"}}), 1024u - 64);
  EXPECT_EQ(context({{"kv_cache", "1KiB"}, {"max_length", "100"}}), 100u);
  EXPECT_EQ(context({{"kv_cache", "1MiB"}}), 32768u);
}

TEST(TokenRoom, TheQueueIsAsLongAsBatchingSaysUnlessAParameterDoes) {
  msg::BatchPolicy batching;
  EXPECT_EQ(read_options({}, batching)->policy.max_waiting, 1u << 20) << "its default is for models of tensors";
  EXPECT_EQ(read_options({}, batching)->policy.max_wait, std::chrono::seconds(60));
  EXPECT_EQ(read_options({{"max_wait", "5s"}}, batching)->policy.max_wait, std::chrono::seconds(5));
  batching.max_queue = 7;
  EXPECT_EQ(read_options({}, batching)->policy.max_waiting, 7u);
  EXPECT_EQ(read_options({{"max_waiting", "9"}}, batching)->policy.max_waiting, 9u);
  batching.max_queue = 0;
  EXPECT_EQ(read_options({}, batching)->policy.max_waiting, 1u << 20) << "without limit, nearly";
}

}  // namespace
}  // namespace weir::llm
