#include "dialects/ops/html.h"

#include <algorithm>
#include <utility>

namespace weir::ops {
namespace {

wire::Response page_head(std::string_view type) {
  wire::Response response;
  response.status = 200;
  response.fields.add("content-type", type);
  response.fields.add("content-security-policy", "default-src 'none'; style-src 'unsafe-inline'; img-src 'self'");
  response.fields.add("x-content-type-options", "nosniff");
  return response;
}

}  // namespace

void fill_mark(std::string& page, std::string_view mark, std::string_view text) {
  if (size_t at = page.find(mark); at != page.npos) page.replace(at, mark.size(), text);
}

std::string way_to_root(std::string_view path) {
  std::string out;
  for (auto n = std::count(path.begin(), path.end(), '/'); n > 1; --n) out += "../";
  return out.empty() ? "./" : out;
}

void respond_page(wire::Exchange& exchange, std::string_view type, base::Bytes body) {
  wire::Response response = page_head(type);
  response.fields.add("vary", "accept");
  exchange.respond(std::move(response), std::move(body));
}

void respond_page(wire::Exchange& exchange, std::string_view type, KeptPage& page) {
  page.respond(exchange, page_head(type), "accept");
}

}  // namespace weir::ops
