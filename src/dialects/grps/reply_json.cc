// write_json() of message.h, in the shape of protobuf's JSON printer.
#include "base/encoding.h"
#include "base/overload.h"
#include "dialects/grps/message.h"
#include "dialects/grps/types.h"
#include "marshal/json_pieces.h"
#include "marshal/json_tensor.h"

namespace weir::grps {
namespace {

using marshal::write_number;
using marshal::write_string;

class Page {
 public:
  Page(std::string& out, Layout layout) : out_(out), pretty_(layout == Layout::kPretty) {}

  void open(char bracket) {
    out_ += bracket;
    ++depth_;
    first_ = true;
  }
  void close(char bracket) {
    --depth_;
    if (!first_) line();
    out_ += bracket;
    first_ = false;
  }
  void key(std::string_view name) {
    item();
    write_string(out_, name);
    out_ += pretty_ ? ": " : ":";
  }
  // The next element of an array.
  void item() {
    if (!first_) out_ += ',';
    first_ = false;
    line();
  }
  void text(std::string_view name, std::string_view value) {
    if (value.empty()) return;
    key(name);
    write_string(out_, value);
  }
  void elements(std::string_view name, msg::DType dtype, std::string_view data) {
    if (data.empty()) return;
    key(name);
    open('[');
    item();
    std::string separator = pretty_ ? ",\n" + std::string(depth_, ' ') : ",";
    marshal::write_elements(out_, dtype, data, {marshal::BytesText::kUtf8, marshal::WideText::kString, separator});
    close(']');
  }

 private:
  void line() {
    if (pretty_) (out_ += '\n').append(depth_, ' ');
  }

  std::string& out_;
  bool pretty_;
  size_t depth_ = 0;
  bool first_ = true;
};

void write_status(std::string& out, Page& page, int code, std::string_view text) {
  page.key("status");
  page.open('{');
  page.key("code");
  write_number(out, int64_t(code));
  page.text("msg", text);
  page.text("status", code == 200 ? "SUCCESS" : "FAILURE");
  page.close('}');
}

void write_tensors(std::string& out, Page& page, const Message& message) {
  page.key("gtensors");
  page.open('{');
  if (!message.tensors.empty()) {
    page.key("tensors");
    page.open('[');
    for (const auto& t : message.tensors) {
      const Type& type = kTypes[type_of(t.dtype)];
      page.item();
      page.open('{');
      page.text("name", t.name);
      page.text("dtype", type.name);
      if (t.shape.rank() > 0) {
        page.key("shape");
        page.open('[');
        for (int64_t dim : t.shape.dims()) page.item(), write_number(out, dim);
        page.close(']');
      }
      page.elements(type.field, t.dtype, t.data.view());
      page.close('}');
    }
    page.close(']');
  }
  page.close('}');
}

// One row after the other; the innermost without line breaks.
void write_array(std::string& out, const msg::Tensor& t, std::string_view& rest, size_t depth) {
  if (t.shape.rank() == 0) return marshal::write_elements(out, t.dtype, rest, {});
  out += '[';
  auto n = size_t(t.shape[depth]);
  if (depth + 1 == t.shape.rank()) {
    size_t bytes = n * msg::size_of(t.dtype);
    marshal::write_elements(out, t.dtype, rest.substr(0, bytes), {});
    rest.remove_prefix(bytes);
  } else {
    for (size_t i = 0; i < n; ++i) {
      if (i) out += ',';
      write_array(out, t, rest, depth + 1);
    }
  }
  out += ']';
}

void write_maps(std::string& out, Page& page, const Message& message) {
  page.key("gmap");
  page.open('{');
  for (size_t map = 0; map < kMaps.size(); ++map) {
    bool any = false;
    for (size_t i = 0; i < message.tensors.size(); ++i) {
      if (message.maps[i] != Map(map)) continue;
      if (!std::exchange(any, true)) page.key(kMaps[map].name), page.open('{');
      const msg::Tensor& t = message.tensors[i];
      page.key(t.name);
      auto text = Map(map) == Map::kBytes ? marshal::BytesText::kBase64 : marshal::BytesText::kUtf8;
      marshal::write_elements(out, t.dtype, t.data.view(), {text, marshal::WideText::kString, ","});
    }
    if (any) page.close('}');
  }
  page.close('}');
}

}  // namespace

int code_of(const base::Status& status) { return status.ok() ? 200 : base::http_status(status); }

// Pretty elements have a line each, at most eight blanks deep; rows of an ndarray have brackets.
uint64_t most_json(const Message& message) {
  constexpr uint64_t kHead = 4096, kPerElement = 10, kPerCharacter = 6;
  uint64_t bytes = kHead + kPerCharacter * message.data.size();
  for (const auto& tensor : message.tensors)
    bytes += marshal::most_text(tensor) + tensor.shape.elements().value_or(0) * (kPerElement + 2 * tensor.shape.rank());
  return bytes;
}

std::string write_failure(int http, std::string_view text) {
  std::string out;
  Page page(out, Layout::kPretty);
  page.open('{');
  write_status(out, page, http, text);
  page.close('}');
  return out + '\n';
}

std::string write_json(const base::Status& status, const Message& message, Layout layout) {
  std::string out;
  out.reserve(160);
  Page page(out, layout);
  page.open('{');
  write_status(out, page, code_of(status),
               status.ok()           ? "OK"
               : status.text.empty() ? base::name(status.code)
                                     : std::string_view(status.text));
  page.text("model", message.model);
  switch (message.kind) {
    case Kind::kNone: break;
    case Kind::kStr:
      page.key("str_data");
      write_string(out, message.data.view());
      break;
    case Kind::kBin:
      page.key("bin_data");
      write_string(out, base::base64_encode(message.data.view()));
      break;
    case Kind::kTensors: write_tensors(out, page, message); break;
    case Kind::kArray: {
      page.key("ndarray");
      std::string_view rest = message.tensors.front().data.view();
      write_array(out, message.tensors.front(), rest, 0);
      break;
    }
    case Kind::kMap: write_maps(out, page, message); break;
  }
  page.close('}');
  if (layout == Layout::kPretty) out += '\n';
  return out;
}

}  // namespace weir::grps
