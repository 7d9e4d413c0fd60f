// The messages of kind weir, and what an origin may make of them.
#include "engines/forward/native/message.h"

#include <gtest/gtest.h>

#include <random>

#include "forward.pb.h"
#include "wire/grpc_frames.h"

namespace weir::forward {
namespace {

namespace fpb = ::weir::forward::v1;

msg::TextSpec spec() {
  msg::TextSpec out;
  out.max_length = 64, out.vocabulary = 300, out.hidden_size = 4;
  out.concepts = {"a", "b"}, out.readout_layers = {1, 3};
  return out;
}

fpb::Sequence sent(const msg::Call& call, std::vector<uint32_t> generated = {}) {
  const base::Bytes bytes = write_sequence(call, generated, "m", "2");
  fpb::Sequence out;
  EXPECT_TRUE(out.ParseFromString(std::string(bytes.view().substr(wire::kGrpcPrefix))));
  return out;
}

TEST(ForwardNative, ASequenceHasAllOfTheCall) {
  msg::Call call;
  call.id = "7", call.priority = 3, call.cache_scope = 5;
  call.generation = std::make_unique<msg::Generation>();
  msg::Generation& g = *call.generation;
  const std::vector<uint32_t> history{1, 2};
  g.history = history, g.append = {3, 299};
  g.max_tokens = 9, g.min_tokens = 4, g.top_logprobs = 2, g.cache_salt = 6, g.ignore_eos = true;
  g.sampling.temperature = 0.5, g.sampling.logit_bias = {{7, -2.5F}};
  g.stop_ids = {11, 12}, g.logprobs = {{0, 4}}, g.readouts = {{1, UINT32_MAX}};
  const fpb::Sequence out = sent(call, {42});
  EXPECT_EQ(out.model() + out.version() + out.id(), "m27");
  EXPECT_EQ(out.priority(), 3u);
  EXPECT_EQ(std::vector<uint32_t>(out.tokens().begin(), out.tokens().end()), (std::vector<uint32_t>{1, 2, 3, 299, 42}));
  EXPECT_EQ(out.params().max_tokens(), 8u);
  EXPECT_EQ(out.params().min_tokens(), 3u);
  EXPECT_EQ(out.params().temperature(), 0.5F);
  EXPECT_FALSE(out.params().has_seed());
  EXPECT_TRUE(out.params().ignore_eos());
  EXPECT_EQ(out.logit_bias(0).bias(), -2.5F);
  EXPECT_EQ(out.stop_ids_size(), 2);
  EXPECT_EQ(out.readouts(0).end(), UINT32_MAX);
  EXPECT_EQ(out.cache_salt(), 3u);
}

TEST(ForwardNative, TokensComeWithTheirDetails) {
  fpb::SequenceEvent event;
  auto* token = event.mutable_token();
  token->set_id(299), token->set_position(5), token->set_has_details(true), token->set_logprob(-0.5F);
  token->add_top_ids(4), token->add_top_logprobs(-1);
  for (float value : {1.F, 2.F, 3.F, 4.F}) token->add_readout(value);
  auto read = read_event(event.SerializeAsString(), spec());
  ASSERT_TRUE(read.has_value()) << read.error().text;
  const auto& out = std::get<msg::Token>(read->what);
  EXPECT_EQ(out.id, 299u);
  EXPECT_EQ(out.position, 5u);
  EXPECT_EQ(out.details->top[0].id, 4u);
  EXPECT_EQ(out.details->readout[3], 4.F);
}

TEST(ForwardNative, EventsThatDoNotFitTheModelAreRefused) {
  auto refused = [](const fpb::SequenceEvent& event) {
    return !read_event(event.SerializeAsString(), spec()).has_value();
  };
  fpb::SequenceEvent event;
  EXPECT_TRUE(refused(event));
  event.mutable_token()->set_id(300);
  EXPECT_TRUE(refused(event));
  event.mutable_token()->set_id(1), event.mutable_token()->add_readout(1);
  EXPECT_TRUE(refused(event));
  event.mutable_done()->set_finish(fpb::Done::Finish(9));
  EXPECT_TRUE(refused(event));
  for (int i = 0; i < 3; ++i) event.mutable_embedding()->add_values(1);
  EXPECT_TRUE(refused(event));
  event.mutable_embedding()->add_values(1);
  EXPECT_FALSE(refused(event));
}

TEST(ForwardNative, AnyBytesAreReadOrRefused) {
  std::mt19937 random(7);
  fpb::SequenceEvent event;
  event.mutable_token()->set_id(1), event.mutable_token()->add_top_ids(4), event.mutable_token()->add_top_logprobs(-1);
  fpb::ModelDescription description;
  description.set_makes_tokens(true), description.set_max_length(9), description.set_vocabulary(9);
  description.add_concepts("x"), description.add_eos_ids(4);
  for (const std::string& whole : {event.SerializeAsString(), description.SerializeAsString()})
    for (int i = 0; i < 20000; ++i) {
      std::string bytes = whole.substr(0, random() % (whole.size() + 1));
      for (char& c : bytes)
        if (random() % 4 == 0) c = char(random());
      (void)read_event(bytes, spec());
      (void)read_description(bytes);
    }
}

}  // namespace
}  // namespace weir::forward
