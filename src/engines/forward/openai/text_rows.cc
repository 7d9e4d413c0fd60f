#include "engines/forward/openai/text_rows.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engines/forward/openai/byte_ids.h"
#include "marshal/json_cursor.h"

namespace weir::forward {
namespace {

using base::invalid;
using base::Status;

Status wrong(size_t row, std::string_view what) {
  return invalid("row " + std::to_string(row) + ": " + std::string(what));
}

const msg::Tensor* input(const msg::Call& call, std::string_view name) {
  for (const auto& tensor : call.inputs)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

// Whoever cuts ids cuts bytes.
void drop_cut_character(std::string& text) {
  for (size_t back = 1; back <= std::min<size_t>(text.size(), 3); ++back) {
    const auto byte = uint8_t(text[text.size() - back]);
    if ((byte & 0xc0) == 0x80) continue;
    const size_t whole = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    if (whole > back) text.resize(text.size() - back);
    return;
  }
}

class RowReader {
 public:
  RowReader(RowsFor what, uint32_t vocabulary) : what_(what), vocabulary_(vocabulary) {}

  base::Result<TextRows> read(const msg::Call& call) {
    const msg::Tensor *ids = input(call, kIdsInput), *text = input(call, kTextInput);
    const msg::Tensor* query = input(call, kQueryInput);
    if (!ids == !text) return invalid("either 'input_ids' or 'text' is needed");
    if (!query != !(text && what_ == RowsFor::kRanking))
      return invalid(query ? "'query' is for 'text' alone" : "'query' is missing");
    if (query && text->shape[0] != query->shape[0]) return invalid("'query' must have a row for each row of 'text'");
    Status status = ids ? read_ids(*ids) : read_texts(*text, query);
    if (!status.ok()) return status;
    if (!out_.ids.empty() && !out_.texts.empty()) return invalid("texts and token ids cannot be mixed in one request");
    const auto rows = size_t((ids ? ids : text)->shape[0]);
    if (rows == 0 || out_.count() != rows) return invalid("there must be one text, or more, and as many as rows");
    return std::move(out_);
  }

 private:
  Status read_ids(const msg::Tensor& tensor) {
    const auto rows = size_t(tensor.shape[0]), n = size_t(tensor.shape[1]);
    const bool wide = tensor.dtype == msg::DType::kInt64;
    if (tensor.data.size() / (wide ? 8 : 4) > kMostPaddedIds) return too_many();
    for (size_t row = 0; row < rows; ++row) {
      std::vector<uint32_t> ids;
      for (size_t i = row * n; i < (row + 1) * n; ++i) {
        const int64_t id = wide ? at<int64_t>(tensor, i) : at<int32_t>(tensor, i);
        if (id < 0) continue;
        if (id >= int64_t(vocabulary_))
          return wrong(row, "token id " + std::to_string(id) + " is not in the vocabulary");
        ids.push_back(uint32_t(id));
      }
      if (Status status = take_row(row, std::move(ids)); !status.ok()) return status;
    }
    return {};
  }

  Status take_row(size_t row, std::vector<uint32_t>&& ids) {
    const bool tokens = std::all_of(ids.begin(), ids.end(), [](uint32_t id) { return id < byte_ids::kBytes; });
    if (ids.empty()) return wrong(row, "a text without tokens");
    if (tokens && what_ == RowsFor::kRanking) return wrong(row, "the model ranks texts, not token ids");
    if (tokens)
      return charge(ids.size() * sizeof(uint32_t), [&] { return out_.ids.push_back(std::move(ids)), Status(); });
    std::string text;
    text.reserve(ids.size());
    size_t marks = 0;
    for (uint32_t id : ids) {
      if (id < byte_ids::kBytes) return wrong(row, "texts and token ids cannot be mixed in one row");
      if (id == byte_ids::kPairMark && ++marks == 1 && what_ == RowsFor::kRanking) {
        if (Status status = take_query(row, text); !status.ok()) return status;
        text.clear();
      } else {
        text += id == byte_ids::kPairMark ? ' ' : char(id - byte_ids::kBytes);
      }
    }
    if (what_ == RowsFor::kRanking && marks == 0) return wrong(row, "a text without a query");
    drop_cut_character(text);
    return take_text(row, text);
  }

  Status read_texts(const msg::Tensor& texts, const msg::Tensor* queries) {
    Status status;
    size_t row = 0;
    if (queries)
      msg::for_each_string(queries->data.view(), [&](std::string_view query) {
        if (status.ok()) status = take_query(row, query);
        ++row;
      });
    row = 0;
    msg::for_each_string(texts.data.view(), [&](std::string_view text) {
      if (status.ok()) status = take_text(row, text);
      ++row;
    });
    return status;
  }

  Status take_query(size_t row, std::string_view query) {
    if (has_query_)
      return query == out_.query ? Status() : wrong(row, "all rows of a request must have the same query");
    has_query_ = true;
    return charge(query.size(), [&] {
      out_.query = query;
      return marshal::valid_utf8(query) ? Status() : wrong(row, "the query is not UTF-8");
    });
  }
  Status take_text(size_t row, std::string_view text) {
    if (text.empty()) return wrong(row, "an empty text");
    return charge(text.size(), [&] {
      out_.texts.emplace_back(text);
      return marshal::valid_utf8(text) ? Status() : wrong(row, "the text is not UTF-8");
    });
  }

  static Status too_many() {
    return invalid("the texts of a request must have at most " + std::to_string(kMostRowBytes) + " bytes");
  }
  template <class F>
  Status charge(size_t bytes, F&& add) {
    bytes_ += bytes;
    return bytes_ > kMostRowBytes ? too_many() : add();
  }
  template <class T>
  static int64_t at(const msg::Tensor& tensor, size_t i) {
    T value;
    std::memcpy(&value, tensor.data.data() + i * sizeof(T), sizeof(T));
    return value;
  }

  const RowsFor what_;
  const uint32_t vocabulary_;
  TextRows out_;
  size_t bytes_ = 0;
  bool has_query_ = false;
};

msg::Tensor strings(const char* name, size_t rows, std::string data) {
  return {name, msg::DType::kBytes, {int64_t(rows), 1}, base::Bytes::adopt(std::move(data))};
}

msg::Tensor padded(const std::vector<std::vector<uint32_t>>& rows) {
  size_t n = 0;
  for (const auto& row : rows) n = std::max(n, row.size());
  std::string data(rows.size() * n * sizeof(int32_t), '\xff');  // -1
  for (size_t row = 0; row < rows.size(); ++row)
    std::memcpy(data.data() + row * n * sizeof(int32_t), rows[row].data(), rows[row].size() * sizeof(int32_t));
  return {kIdsInput, msg::DType::kInt32, {int64_t(rows.size()), int64_t(n)}, base::Bytes::adopt(std::move(data))};
}

}  // namespace

std::vector<msg::TensorSpec> text_row_inputs(RowsFor what) {
  std::vector<msg::TensorSpec> out{{kIdsInput, msg::DType::kInt64, {-1}, true, {}},
                                   {kTextInput, msg::DType::kBytes, {1}, true, {}}};
  out[0].second_dtype = msg::DType::kInt32;
  if (what == RowsFor::kRanking) out.push_back({kQueryInput, msg::DType::kBytes, {1}, true, {}});
  return out;
}

base::Result<TextRows> read_text_rows(const msg::Call& call, RowsFor what, uint32_t vocabulary) {
  return RowReader(what, vocabulary).read(call);
}

size_t input_bytes(const msg::Call& call) {
  size_t out = 0;
  for (const auto& tensor : call.inputs) out += tensor.data.size();
  return out;
}

bool same_kind(const TextRows& a, const TextRows& b) { return a.ids.empty() == b.ids.empty() && a.query == b.query; }

void append(TextRows& to, TextRows&& more) {
  std::move(more.texts.begin(), more.texts.end(), std::back_inserter(to.texts));
  std::move(more.ids.begin(), more.ids.end(), std::back_inserter(to.ids));
}

std::vector<msg::Tensor> write_text_rows(const TextRows& rows, RowsFor what) {
  std::vector<msg::Tensor> out;
  if (!rows.ids.empty()) return out.push_back(padded(rows.ids)), out;
  std::string texts, queries;
  for (const auto& text : rows.texts) msg::append_string(texts, text);
  out.push_back(strings(kTextInput, rows.texts.size(), std::move(texts)));
  if (what == RowsFor::kEmbeddings) return out;
  for (size_t i = 0; i < rows.texts.size(); ++i) msg::append_string(queries, rows.query);
  out.push_back(strings(kQueryInput, rows.texts.size(), std::move(queries)));
  return out;
}

}  // namespace weir::forward
