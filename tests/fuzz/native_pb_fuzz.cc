// Any bytes as a Sequence of weir's own protocol: what is taken has its images inside of the message and where its
// tokens have a place for them.
#include <cstdint>
#include <string_view>

#include "dialects/native/messages.h"
#include "require.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weir;  // NOLINT: a program of one file
  const auto message = base::Bytes::copy_of({reinterpret_cast<const char*>(data), size});
  auto request = native::read_sequence(message);
  if (!request) return 0;
  const auto& g = request->generation;
  for (const auto& image : g.images)
    require(image.data.empty() || (image.data.data() >= message.data() &&
                                   image.data.data() + image.data.size() <= message.data() + message.size()),
            "an image lies in the message");
  msg::TextSpec spec;
  spec.max_length = 64, spec.vocabulary = 300;
  spec.vision =
      msg::TextSpec::Vision{1, 2, 3, [](std::string_view, std::string_view) -> base::Result<uint32_t> { return 2; }};
  if (!native::apply(*request, spec).ok()) return 0;
  uint32_t before = 0;
  for (const auto& image : g.images) {
    require(image.start >= before && image.end == image.start + 4 && image.end <= g.append.size(), "it has a place");
    require(g.append[image.start] == 1 && g.append[image.start + 3] == 3, "the tokens stand for it");
    before = image.end;
  }
  return 0;
}
