#include "marshal/html.h"

namespace weir::marshal {

std::string escape_html(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '<' || c == '>' || c == '&' || c == '"')
      out += "&#" + std::to_string(int(c)) + ";";
    else
      out += c;
  }
  return out;
}

}  // namespace weir::marshal
