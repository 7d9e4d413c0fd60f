// Any text as a model's answer in every format of tool calls: it is taken apart alike however it is split, and no more
// comes out than went in.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "require.h"
#include "text/answer_parser.h"

namespace {

using namespace weir;  // NOLINT: a program of one file

struct Parts {
  std::string content, reasoning, calls;
  bool operator==(const Parts&) const = default;
};

void take(const text::AnswerPieces& pieces, Parts& out) {
  out.content += pieces.content, out.reasoning += pieces.reasoning;
  for (const auto& call : pieces.calls) {
    if (!call.name.empty()) out.calls += '\n' + std::to_string(call.index) + call.name + '(';
    out.calls += call.arguments;
  }
}

Parts parse(text::AnswerParser::Options options, std::string_view answer, size_t step) {
  text::AnswerParser parser(options);
  Parts out;
  for (size_t at = 0; at < answer.size(); at += step) {
    text::AnswerPieces pieces;
    parser.push(answer.substr(at, step), pieces);
    take(pieces, out);
  }
  text::AnswerPieces rest;
  parser.finish(rest);
  take(rest, out);
  return out;
}

}  // namespace

// The first byte is the format, and whether the model thinks; the second the split.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const auto format = msg::ToolFormat(data[0] % (int(msg::ToolFormat::kPythonic) + 1));
  const text::AnswerParser::Options options{{format, (data[0] & 0x40) != 0}, (data[0] & 0x80) != 0};
  const std::string_view answer(reinterpret_cast<const char*>(data) + 2, size - 2);
  const Parts whole = parse(options, answer, answer.size() + 1);
  weir::require(parse(options, answer, 1) == whole, "byte by byte it is the same");
  weir::require(parse(options, answer, 1 + data[1] % 32) == whole, "in any pieces it is the same");
  weir::require(whole.content.size() + whole.reasoning.size() <= answer.size(), "text does not grow");
  weir::require(whole.calls.size() <= 8 * answer.size() + 64, "calls do not grow");
  return 0;
}
