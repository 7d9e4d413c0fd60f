#include <algorithm>

#include <gtest/gtest.h>

#include "bench.h"

namespace weir::salience {
namespace {

using Code = base::Code;

struct Picture {
  uint32_t start, end;
  std::string data = "4", mime = "image/png";
};
pb::GenerateRequest with_images(const std::string& id, uint32_t offset, const Ids& tokens,
                                std::vector<Picture> pictures) {
  auto r = Bench::request(id, offset, tokens, 0);
  for (const auto& p : pictures) {
    auto* image = r.add_images();
    image->set_bytes(p.data), image->set_mime(p.mime);
    image->set_pad_range_start(p.start), image->set_pad_range_end(p.end);
  }
  return r;
}
const Ids kBlock{7, 900, 901, 901, 901, 901, 902, 8};  // the image at [1, 7)

TEST(SalienceImages, ComeAlongAndAreNotCut) {
  Bench t;
  auto id = t.open();
  t.grow(id, 0, {1, 2});
  auto x = t.generate(with_images(id, 2, kBlock, {{3, 9}}));
  ASSERT_EQ(t.call().generation->images.size(), 1u);
  EXPECT_EQ(t.call().generation->images[0].data.view(), "4");
  t.finish();
  EXPECT_EQ(support::grpc_status(*x), 0);
  for (uint32_t at : {4u, 8u}) {
    auto r = Bench::request(id, at, {5}, 0);
    r.set_truncating(true);
    auto refusal = t.refused(r);
    EXPECT_EQ(refusal.reason, "IMAGE_SPLIT");
    EXPECT_EQ(refusal.metadata.at("start"), "3");
    EXPECT_EQ(refusal.metadata.at("length"), "10");
  }
  pb::ForkSessionRequest fork;
  fork.set_session_id(id), fork.set_at_position(9);
  auto child = t.ask<pb::ForkSessionResponse>("ForkSession", fork).response.session_id();
  auto y = t.generate(Bench::request(child, 9, {5}, 0));
  ASSERT_EQ(t.call().generation->history_images.size(), 1u);
  EXPECT_EQ(t.call().generation->history_images[0].start, 3u);
  t.finish();
  fork.set_at_position(5);
  EXPECT_EQ(t.ask<pb::ForkSessionResponse>("ForkSession", fork).status, number(Code::kFailedPrecondition));
}

TEST(SalienceImages, AreBoundedTogether) {
  Bench t;
  auto id = t.open();
  const Picture half{1, 7, std::string(8 << 20, 'x')}, more{8, 14, std::string((8 << 20) + 1, 'x')};
  auto refusal = t.refused(with_images(id, 0, kBlock, {half, more}));
  EXPECT_EQ(refusal.code, number(Code::kInvalidArgument));
  EXPECT_EQ(refusal.text, "images must have at most 16777216 bytes together");
  EXPECT_NE(t.refused(with_images(id, 0, kBlock, {half, half})).text, refusal.text);
}

TEST(SalienceImages, BlocksThatAreNotWhatTheyShouldBeAreRefused) {
  Bench t;
  auto id = t.open();
  auto refused = [&](const Ids& tokens, std::vector<Picture> pictures) {
    auto refusal = t.refused(with_images(id, 0, tokens, std::move(pictures)));
    EXPECT_EQ(refusal.code, number(Code::kInvalidArgument));
    return refusal.text;
  };
  auto pads = t.refused(with_images(id, 0, kBlock, {{1, 7, "5"}}));
  EXPECT_EQ(pads.text, "images[0]: the block has 4 pads, but the encoder makes 5 features of this image");
  EXPECT_EQ(pads.metadata, (std::map<std::string, std::string>{{"expected", "5"}, {"given", "4"}}));
  EXPECT_EQ(refused(kBlock, {}), "append_tokens[2] is an image pad outside of every declared block");
  EXPECT_EQ(refused(kBlock, {{1, 7, "broken"}}), "images[0]: not a PNG");
  EXPECT_EQ(refused(kBlock, {{1, 7, "4", "image/gif"}}),
            "images[0].mime must be image/png, image/jpeg or image/webp, not 'image/gif'");
  EXPECT_EQ(refused(kBlock, {{1, 7, ""}}), "images[0].bytes must not be empty");
  EXPECT_EQ(refused(kBlock, {{0, 7}}), "images[0]: position 0 must be vision_start (900), but is 7");
  EXPECT_EQ(refused(kBlock, {{1, 8}}), "images[0]: position 6 must be an image pad (901), but is 902");
  EXPECT_EQ(refused(kBlock, {{1, 6}}), "images[0]: position 5 must be vision_end (902), but is 901");
  EXPECT_EQ(refused(kBlock, {{1, 9}}),
            "images[0]: its block [1, 9) must lie within what is appended, behind the block before it: [0, 8)");
  EXPECT_EQ(refused(kBlock, {{7, 1}}),
            "images[0]: its block [7, 1) must hold at least vision_start, a pad and vision_end");
  EXPECT_EQ(refused(kBlock, {{1, 7}, {1, 7}}),
            "images[1]: its block [1, 7) must lie within what is appended, behind the block before it: [7, 8)");
  EXPECT_EQ(refused(kBlock, {{1, 4294967295u}}).substr(0, 39), "images[0]: its block [1, 4294967295) mu");
  EXPECT_EQ(refused(kBlock, std::vector<Picture>(1025, Picture{1, 7})), "images must have at most 1024 entries");
  t.grow(id, 0, {1, 2, 3});
  EXPECT_EQ(t.refused(with_images(id, 3, kBlock, {{1, 7}})).code, number(Code::kInvalidArgument));  // in the history
  EXPECT_EQ(t.dump(id), (Ids{1, 2, 3}));
}

TEST(SalienceImages, MayBeListedInAnyOrderAndInNumbers) {
  Bench t;
  auto id = t.open();
  Ids tokens;
  std::vector<Picture> pictures;
  for (uint32_t i = 0; i < 24; ++i) {
    tokens.insert(tokens.end(), {900, 901, 902, 7});
    pictures.push_back({i * 4, i * 4 + 3, "1" + std::string(i, ' ')});
  }
  std::rotate(pictures.begin(), pictures.begin() + 9, pictures.end());
  std::swap(pictures[3], pictures[20]);
  auto x = t.generate(with_images(id, 0, tokens, pictures));
  ASSERT_EQ(t.chat().held.size(), 1u) << support::grpc_message(*x);
  const auto& images = t.call().generation->images;
  ASSERT_EQ(images.size(), 24u);
  for (uint32_t i = 0; i < 24; ++i) {
    EXPECT_EQ(images[i].start, i * 4);
    EXPECT_EQ(images[i].data.size(), 1 + i) << "each with its own bytes";
  }
  t.finish();
  pictures[5].data = "2";
  EXPECT_EQ(t.refused(with_images(t.open(), 0, tokens, pictures)).text,
            "images[5]: the block has 1 pads, but the encoder makes 2 features of this image")
      << "named as the client counts them";
}

TEST(SalienceImages, TheirTypesAreReadAsPeopleWriteThem) {
  for (std::string type : {"image/jpg", "IMAGE/PNG", "Image/Jpeg", "image/webp; q=1", "image/JPG "}) {
    Bench t;
    auto x = t.generate(with_images(t.open(), 0, kBlock, {{1, 7, "4", type}}));
    EXPECT_EQ(t.chat().held.size(), 1u) << type << support::grpc_message(*x);
  }
}

TEST(SalienceImages, AModelWithoutEyesOrConceptsSaysSo) {
  Bench t;
  auto plain = text_spec();
  plain->vision.reset();
  plain->concepts.clear();
  t.add("plain", plain);
  t.publish();
  auto id = t.open("plain");
  EXPECT_EQ(t.refused(with_images(id, 0, kBlock, {{1, 7}})).text, "model 'plain' does not see images");
  auto r = Bench::request(id, 0, {1}, 1);
  r.add_readout_ranges()->set_end(1);
  EXPECT_EQ(t.refused(r).text, "model 'plain' has no concept readouts");
}

}  // namespace
}  // namespace weir::salience
