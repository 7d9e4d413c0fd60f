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
  std::string bytes;
  for (const auto& piece : write_sequence(call, generated, "m", "2")) bytes += piece.view();
  const std::string_view message = std::string_view(bytes).substr(wire::kGrpcPrefix);
  const auto prefix = wire::grpc_prefix(wire::GrpcFlag::kPlain, uint32_t(message.size()));
  EXPECT_EQ(bytes.substr(0, wire::kGrpcPrefix),
            std::string(reinterpret_cast<const char*>(prefix.data()), prefix.size()));
  fpb::Sequence out;
  EXPECT_TRUE(out.ParseFromString(std::string(message)));
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

TEST(ForwardNative, ImagesAreSentAsTheyAre) {
  msg::Call call;
  call.generation = std::make_unique<msg::Generation>();
  msg::Generation& g = *call.generation;
  const std::vector<msg::Image> before{{base::Bytes::copy_of("first"), "image/png", 0, 3}};
  const std::vector<uint32_t> history{1, 2, 3};
  g.history = history, g.history_images = before;
  g.append = {1, 2, 2, 3};
  g.images = {{base::Bytes::copy_of("second"), "", 3, 7}};
  EXPECT_TRUE(has_images(call));
  EXPECT_TRUE(images_fit(call).ok());
  const fpb::Sequence out = sent(call);
  ASSERT_EQ(out.images_size(), 2);
  EXPECT_EQ(out.images(0).data() + out.images(0).mime(), "firstimage/png");
  EXPECT_EQ(out.images(1).data() + out.images(1).mime(), "second");
  EXPECT_EQ(out.images(1).start(), 3u);
  EXPECT_EQ(out.images(1).end(), 7u);
  g.images[0].data = base::Bytes::adopt(std::string(kMostImageBytes, 'x'));
  EXPECT_EQ(images_fit(call).text, "images: at most 33554432 bytes of them can be forwarded");
}

TEST(ForwardNative, AModelThatSeesIsDescribed) {
  fpb::ModelDescription sent;
  sent.set_makes_tokens(true), sent.set_max_length(64), sent.set_vocabulary(300);
  auto blind = read_description(sent.SerializeAsString());
  ASSERT_TRUE(blind);
  EXPECT_FALSE(blind->vision);
  auto& vision = *sent.mutable_vision();
  vision.set_start_id(1), vision.set_pad_id(2), vision.set_end_id(299), vision.set_pads(16);
  auto read = read_description(sent.SerializeAsString());
  ASSERT_TRUE(read) << read.error().text;
  ASSERT_TRUE(read->vision);
  EXPECT_EQ(read->vision->end_id, 299u);
  EXPECT_EQ(read->vision->pads, 16u);
  vision.set_end_id(300);
  EXPECT_FALSE(read_description(sent.SerializeAsString()));
  vision.set_end_id(3), vision.set_pads(0);
  EXPECT_FALSE(read_description(sent.SerializeAsString()));
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

TEST(ForwardNative, AFilterOfContentsEndsAText) {
  fpb::SequenceEvent event;
  event.mutable_done()->set_finish(fpb::Done::EOS);
  EXPECT_EQ(std::get<msg::Done>(read_event(event.SerializeAsString(), spec())->what).finish, msg::Finish::kEos);
  event.mutable_done()->set_filtered(true);
  EXPECT_EQ(std::get<msg::Done>(read_event(event.SerializeAsString(), spec())->what).finish, msg::Finish::kFiltered);
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
