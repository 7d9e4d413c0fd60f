// Any text as an origin's answer with embeddings or scores: what is taken has every row once, of finite numbers. Any
// bytes as ids, or as texts: what is taken is UTF-8 and goes out as JSON that reads back.
#include <cmath>
#include <cstdint>
#include <string_view>

#include "engines/forward/openai/byte_ids.h"
#include "engines/forward/openai/rows_message.h"
#include "marshal/json_cursor.h"
#include "require.h"

namespace {

using namespace weir;           // NOLINT: a program of one file
using namespace weir::forward;  // NOLINT

void check(const base::Result<RowsAnswer>& answer, size_t size) {
  if (!answer) return require(!answer.error().text.empty(), "a refusal has words");
  require(answer->values.size() == size, "every row is there");
  for (float value : answer->values) require(std::isfinite(value), "every number is finite");
}

void check(const msg::Call& call, RowsFor what) {
  auto rows = read_text_rows(call, what, byte_ids::kVocabulary);
  if (!rows) return;
  require(rows->count() > 0 && (rows->texts.empty() || rows->ids.empty()), "rows are of one kind");
  for (auto body : {RowsForm::Body::kBase64, RowsForm::Body::kDocuments, RowsForm::Body::kPairs}) {
    const std::string json = write_rows_request(*rows, body, "m");
    marshal::JsonCursor cursor(json);
    require(cursor.skip() && cursor.finish(), "a request is JSON");
  }
  msg::Call again;
  again.inputs = write_text_rows(*rows, what);
  auto same = read_text_rows(again, what, byte_ids::kVocabulary);
  require(same && same->texts == rows->texts && same->ids == rows->ids && same->query == rows->query,
          "what is written is what was read");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (size_t rows : {1, 3}) {
    check(read_embeddings(text, rows, 2), rows * 2);
    check(read_ranking(text, rows), rows);
  }
  for (RowsFor what : {RowsFor::kEmbeddings, RowsFor::kRanking}) {
    msg::Call ids, texts;
    const size_t count = size / sizeof(int32_t);
    ids.inputs.push_back(
        {kIdsInput, msg::DType::kInt32, {1, int64_t(count)}, base::Bytes::copy_of(text.substr(0, count * 4))});
    check(ids, what);
    std::string one;
    msg::append_string(one, text);
    texts.inputs.push_back({kTextInput, msg::DType::kBytes, {1, 1}, base::Bytes::copy_of(one)});
    if (what == RowsFor::kRanking)
      texts.inputs.push_back({kQueryInput, msg::DType::kBytes, {1, 1}, base::Bytes::copy_of(one)});
    check(texts, what);
  }
  return 0;
}
