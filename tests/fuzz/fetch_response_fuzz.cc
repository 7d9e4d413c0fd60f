// Any bytes as the answer of a web server: the same is made of them however they are cut, and never more than allowed.
#include <cstdint>
#include <string>
#include <string_view>

#include "net/fetch_response.h"
#include "require.h"

namespace {

using namespace weir;  // NOLINT: a program of one file

constexpr uint64_t kMost = 2000;

struct Outcome {
  base::Status status;
  bool done = false;
  std::string body;
};

Outcome run(std::string_view bytes, size_t step) {
  net::FetchResponse response(kMost);
  Outcome out;
  for (size_t at = 0; at < bytes.size() && out.status.ok() && !response.done(); at += step) {
    out.status = response.feed(bytes.substr(at, step));
    require(response.body().size() <= kMost, "no more is kept than is allowed");
  }
  if (out.status.ok() && !response.done()) out.status = response.end();
  out.done = response.done();
  if (out.status.ok()) out.body = response.body();
  require(out.status.ok() || !out.status.text.empty(), "a failure says why");
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  auto whole = run(bytes, size + 1);
  for (size_t step : {size_t(1), size_t(7)}) {
    auto cut = run(bytes, step);
    require(cut.status.code == whole.status.code && cut.done == whole.done && cut.body == whole.body,
            "cuts change nothing");
  }
  return 0;
}
