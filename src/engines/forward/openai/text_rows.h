// TextRows: what the tensors of a Call say to an origin that embeds or ranks texts. Pure; any thread.
//
//   input_ids  INT64 or INT32 [rows, n]: ids, of which negative ones are padding. All of a row are bytes of its text
//              (byte_ids.h), of a ranking with a kPairMark between the query and the text; or all are tokens
//   text       BYTES [rows, 1], in place of them; of a ranking beside
//   query      BYTES [rows, 1], the same in all rows
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "msg/call.h"
#include "msg/spec.h"

namespace weir::forward {

enum class RowsFor : uint8_t { kEmbeddings, kRanking };

inline constexpr const char *kIdsInput = "input_ids", *kTextInput = "text", *kQueryInput = "query";
inline constexpr size_t kMostRowBytes = 1 << 20;   // of all texts of a request; of ids, four bytes each
inline constexpr size_t kMostPaddedIds = 1 << 20;  // of input_ids, the padding among them

struct TextRows {
  std::vector<std::string> texts;          // one for each row, UTF-8; or
  std::vector<std::vector<uint32_t>> ids;  // the same, of the origin's tokens
  std::string query;                       // of a ranking

  size_t count() const { return texts.size() + ids.size(); }
  // Bytes of a row: its share of the work.
  size_t weight(size_t row) const { return ids.empty() ? texts[row].size() : ids[row].size() * sizeof(uint32_t); }
};

// Inputs of such a model, whose ids are below `vocabulary`.
std::vector<msg::TensorSpec> text_row_inputs(RowsFor what);

// Errors: INVALID_ARGUMENT, naming the row.
base::Result<TextRows> read_text_rows(const msg::Call& call, RowsFor what, uint32_t vocabulary);

// How many bytes its inputs have, before they are read.
size_t input_bytes(const msg::Call& call);
// Rows of the same kind, with the same query, which may go as one request.
bool same_kind(const TextRows& a, const TextRows& b);
void append(TextRows& to, TextRows&& more);
// The tensors that say the same.
std::vector<msg::Tensor> write_text_rows(const TextRows& rows, RowsFor what);

}  // namespace weir::forward
