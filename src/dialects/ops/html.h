// Pages of the server: their marks, and how they are sent.
#pragma once

#include <string>
#include <string_view>

#include "base/bytes.h"
#include "dialects/ops/kept_page.h"
#include "wire/exchange.h"

namespace weir::ops {

// Puts `text` in the place of the comment `mark`, where the page has it first.
void fill_mark(std::string& page, std::string_view mark, std::string_view text);

// The way from the page at a path to the root of all paths, as its links begin: "./", "../". A proxy may serve them
// below a path of its own, which nobody tells.
std::string way_to_root(std::string_view path);

// Answers with a page that may show no more than itself and the server's pictures: no script, no frame, nothing from
// elsewhere.
void respond_page(wire::Exchange& exchange, std::string_view type, base::Bytes body);
void respond_page(wire::Exchange& exchange, std::string_view type, KeptPage& page);

}  // namespace weir::ops
