// Any bytes as a GenerateRequest: read by hand, it is what libprotobuf reads, costs no more than a few times its size,
// and what passes the checks holds what engines rely on.
#include <cmath>

#include "dialects/salience/turn_request.h"
#include "require.h"
#include "salience.pb.h"

namespace {

using namespace weir;  // NOLINT: a program of one file
namespace pb = ::salience::v1;

bool ordered(const std::vector<msg::PositionRange>& ranges) {
  for (size_t i = 0; i < ranges.size(); ++i)
    if (ranges[i].start >= ranges[i].end || (i > 0 && ranges[i].start <= ranges[i - 1].end)) return false;
  return true;
}

void compare(const weir::salience::TurnRequest& ours, const pb::GenerateRequest& theirs) {
  const msg::Generation& g = ours.generation;
  require(g.append.size() == size_t(theirs.append_tokens_size()), "as many tokens");
  require(std::equal(g.append.begin(), g.append.end(), theirs.append_tokens().begin()), "the same tokens");
  require(ours.offset == theirs.offset() && g.max_tokens == theirs.max_tokens(), "the same numbers");
  require((ours.rewind == session::Append::Rewind::kYes) == theirs.truncating(), "the same rewind");
  require(int64_t(ours.priority) == theirs.priority(), "the same priority");
  require(g.images.size() == size_t(theirs.images_size()), "as many images");
  for (size_t i = 0; i < g.images.size(); ++i)
    require(g.images[i].data.view() == theirs.images(int(i)).bytes() &&
                g.images[i].start == theirs.images(int(i)).pad_range_start(),
            "the same images");
}

void check(weir::salience::TurnRequest params) {
  auto text = std::make_shared<msg::TextSpec>();
  text->max_length = 64, text->vocabulary = 50, text->concepts = {"a"};
  text->vision = msg::TextSpec::Vision{
      7, 8, 9, [](std::string_view data, std::string_view) -> base::Result<uint32_t> { return uint32_t(data.size()); }};
  msg::ModelSpec spec;
  spec.text = text;
  if (!weir::salience::check_request(params, spec).ok()) return;
  const msg::Generation& g = params.generation;
  require(params.offset + g.append.size() + g.max_tokens <= 64, "the context holds it");
  for (uint32_t id : g.append) require(id < 50, "tokens are in the vocabulary");
  for (const auto& image : g.images)
    require(image.start >= params.offset && image.end <= params.offset + g.append.size() &&
                image.end - image.start == image.data.size() + 2,
            "an image's block is as long as its features");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto bytes = base::Bytes::copy_of({reinterpret_cast<const char*>(data), size});
  auto params = weir::salience::read_request(bytes);
  if (!params) return 0;
  const msg::Generation& g = params->generation;
  require(g.append.capacity() * sizeof(uint32_t) <= 8 * size + 64, "a request stays near its size");
  require(ordered(g.logprobs) && ordered(g.readouts), "ranges are in order and apart");
  require(g.sampling.temperature > 0 && g.sampling.top_p > 0 && g.sampling.top_p <= 1, "sampling is in range");
  require(params->priority <= 10, "priority is in range");
  pb::GenerateRequest theirs;
  // libprotobuf refuses what ours passes over: text that is no UTF-8, say.
  if (theirs.ParseFromArray(data, int(size))) compare(*params, theirs);
  check(std::move(*params));
  return 0;
}
