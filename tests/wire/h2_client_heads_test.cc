// The parts of the HTTP/2 client: heads of requests, heads of answers, streams.
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>

#include "support/h2_client.h"
#include "wire/h2_client_decoder.h"
#include "wire/h2_client_encoder.h"
#include "wire/h2_client_streams.h"

namespace weir::test {
namespace {

using wire::H2ClientDecoder, wire::H2ClientEncoder, wire::H2ClientStreams;
using Block = H2ClientDecoder::Block;

// Decodes as a peer does that knows of no shortcut.
class Inflater {
 public:
  Inflater() { nghttp2_hd_inflate_new(&inflater_); }
  ~Inflater() { nghttp2_hd_inflate_del(inflater_); }
  Inflater(const Inflater&) = delete;
  void resize(size_t bytes) { nghttp2_hd_inflate_change_table_size(inflater_, bytes); }
  Headers read(std::string_view block) {
    Headers out;
    for (;;) {
      nghttp2_nv nv;
      int flags = 0;
      const ssize_t n = nghttp2_hd_inflate_hd2(inflater_, &nv, &flags, reinterpret_cast<const uint8_t*>(block.data()),
                                               block.size(), 1);
      EXPECT_GE(n, 0);
      if (n < 0) break;
      block.remove_prefix(size_t(n));
      if (flags & NGHTTP2_HD_INFLATE_EMIT)
        out.emplace_back(std::string(nv.name, nv.name + nv.namelen), std::string(nv.value, nv.value + nv.valuelen));
      if (flags & NGHTTP2_HD_INFLATE_FINAL) break;
    }
    nghttp2_hd_inflate_end_headers(inflater_);
    return out;
  }

 private:
  nghttp2_hd_inflater* inflater_ = nullptr;
};

class Deflater {
 public:
  Deflater() { nghttp2_hd_deflate_new(&deflater_, 4096); }
  ~Deflater() { nghttp2_hd_deflate_del(deflater_); }
  Deflater(const Deflater&) = delete;
  void resize(size_t bytes) { nghttp2_hd_deflate_change_table_size(deflater_, bytes); }
  std::string write(const Headers& fields) {
    std::vector<nghttp2_nv> list;
    for (const auto& [n, v] : fields)
      list.push_back({(uint8_t*)n.data(), (uint8_t*)v.data(), n.size(), v.size(), NGHTTP2_NV_FLAG_NONE});
    std::string out(nghttp2_hd_deflate_bound(deflater_, list.data(), list.size()), '\0');
    out.resize(size_t(nghttp2_hd_deflate_hd(deflater_, (uint8_t*)out.data(), out.size(), list.data(), list.size())));
    return out;
  }

 private:
  nghttp2_hd_deflater* deflater_ = nullptr;
};

Headers list(const wire::Fields& fields) {
  Headers out;
  for (size_t i = 0; i < fields.size(); ++i) out.emplace_back(fields[i].name, fields[i].value);
  return out;
}

wire::ClientRequest infer() {
  wire::ClientRequest request{"POST", "http", "origin:8001", "/inference.GRPCInferenceService/ModelInfer", {}, {}};
  request.form = wire::ClientRequest::Form::kGrpc;
  return request;
}

// Fields that change come behind the others.
std::multiset<std::pair<std::string, std::string>> asked(const wire::ClientRequest& request) {
  const Headers fields = list(request.fields);
  std::multiset<std::pair<std::string, std::string>> out(fields.begin(), fields.end());
  for (const auto& [name, value] : request.fields_of_form()) out.emplace(name, value);
  out.insert({{":method", request.method}, {":scheme", request.scheme}});
  out.insert({{":authority", request.authority}, {":path", request.target}});
  return out;
}

TEST(H2ClientEncoder, BlocksSayTheirFieldsWhateverTheTableHolds) {
  std::mt19937 random(1);
  H2ClientEncoder heads;
  Inflater server;
  for (int i = 0; i < 20'000; ++i) {
    wire::ClientRequest request = infer();
    if (random() % 3 == 0) request.fields.add("grpc-timeout", std::to_string(random() % 1000) + "m");
    if (random() % 5 == 0) request.fields.add("traceparent", std::to_string(random()));
    if (random() % 5 == 0) request.fields.add("weir-tenant", std::to_string(random() % 6));
    if (random() % 20 == 0) request.fields.add("x-other", std::string(random() % 6000, 'x'));
    if (random() % 50 == 0) request.target = "/other";
    if (random() % 20 == 0) request.form = wire::ClientRequest::Form::kPlain;
    if (random() % 40 == 0) {
      const uint32_t bytes = random() % 3 == 0 ? 0 : random() % 10'000;
      ASSERT_TRUE(heads.resize_table(bytes));
      server.resize(bytes);
    }
    const Headers read = server.read(heads.block(request));
    ASSERT_EQ((std::multiset<std::pair<std::string, std::string>>(read.begin(), read.end())), asked(request)) << i;
    ASSERT_EQ(read.front().first, ":method");
  }
}

TEST(H2ClientEncoder, TheSameHeadIsTheSameShortBlock) {
  H2ClientEncoder heads;
  (void)heads.block(infer());
  const std::string second(heads.block(infer()));
  EXPECT_LT(second.size(), 45u);
  EXPECT_EQ(heads.block(infer()), second);
  wire::ClientRequest timed = infer();
  timed.fields.add("grpc-timeout", "1S");
  EXPECT_TRUE(heads.block(timed).starts_with(second)) << "a deadline changes nothing of the rest";
  EXPECT_EQ(heads.block(infer()), second);
}

TEST(H2ClientDecoder, KnownBlocksAreWhatTheLibraryDecodes) {
  std::mt19937 random(2);
  Deflater server;
  Inflater library;
  H2ClientDecoder heads(64 << 10);
  for (int i = 0; i < 20'000; ++i) {
    const Block kind = random() % 2 ? Block::kHead : Block::kTrailers;
    Headers fields{{"grpc-status", std::to_string(random() % 20 == 0)}};
    if (kind == Block::kHead) fields = {{":status", "200"}, {"content-type", "application/grpc"}};
    if (random() % 30 == 0) fields.emplace_back("x", std::to_string(random() % 50));
    if (random() % 60 == 0) fields.emplace_back("long", std::string(random() % 4000, 'y'));
    if (random() % 50 == 0) server.resize(random() % 4097);
    const std::string block = random() % 4 ? server.write(fields) : test::block(fields);
    Headers decoded = library.read(block);
    ASSERT_EQ(decoded, fields);
    const H2ClientDecoder::Head* head = nullptr;
    if (random() % 10 == 0) {
      heads.begin(kind);
      const size_t cut = random() % (block.size() + 1);
      ASSERT_TRUE(heads.add(std::string_view(block).substr(0, cut), wire::BlockRest::kFollows));
      head = heads.add(std::string_view(block).substr(cut), wire::BlockRest::kNone);
    } else {
      head = heads.read(block, kind);
    }
    ASSERT_TRUE(head && head->well_formed) << i;
    if (kind == Block::kHead) decoded.erase(decoded.begin());
    ASSERT_EQ(list(head->fields), decoded) << i;
    ASSERT_EQ(head->status, kind == Block::kHead ? 200 : 0);
  }
}

TEST(H2ClientDecoder, AHeadIsNoTrailersAndTrailersAreNoHead) {
  H2ClientDecoder heads(1000);
  const std::string head = block({{":status", "200"}}), trailers = block({{"grpc-status", "0"}});
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(heads.read(head, Block::kHead)->well_formed);
    EXPECT_FALSE(heads.read(head, Block::kTrailers)->well_formed);
    EXPECT_TRUE(heads.read(trailers, Block::kTrailers)->well_formed);
    EXPECT_FALSE(heads.read(trailers, Block::kHead)->well_formed);
  }
  EXPECT_EQ(heads.read("\xff\xff\xff\xff\xff\xff\xff", Block::kHead), nullptr);
}

TEST(H2ClientStreams, ThoseThatAreOpenAreFoundWhereverTheyLie) {
  std::mt19937 random(3);
  H2ClientStreams streams;
  struct Silent final : wire::ClientAnswer {
    void on_head(int, const wire::Fields&) override {}
    size_t on_body(std::span<const std::byte> piece) override { return piece.size(); }
    void on_end(const wire::Fields&) override {}
    void on_failed(const base::Status&) override {}
  };
  std::map<int32_t, Silent> answers;
  std::map<int32_t, wire::ClientStream*> open;
  int32_t next = 1;
  for (int i = 0; i < 20'000; ++i) {
    const bool grows = i / 1000 % 2 == 0;
    if (open.empty() || random() % 10 < (grows ? 6u : 4u)) {
      open[next] = &streams.open(next, answers[next]);
      next += random() % 5 == 0 ? 128 : 2;
    } else {
      auto at = open.begin();
      std::advance(at, random() % open.size());
      streams.close(*at->second);
      open.erase(at);
    }
    ASSERT_EQ(streams.size(), open.size());
    for (int32_t id = std::max(1, next - 300); id < next; id += 2) {
      auto found = open.find(id);
      ASSERT_EQ(streams.find(id), found == open.end() ? nullptr : found->second) << id;
      if (answers.contains(id)) {
        ASSERT_EQ(streams.find(answers[id]), streams.find(id)) << id;
      }
    }
  }
  ASSERT_EQ(streams.ids().size(), open.size());
}

}  // namespace
}  // namespace weir::test
