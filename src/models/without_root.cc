#include "models/folder.h"

namespace weir::models {
namespace {

// Whether a path goes on with this character.
bool is_of_path(char c) { return c == '/' || good_model_name(std::string("m") + c); }

}  // namespace

// Where the folder lies below "/", every path has the root: then only those that begin with the folder are shortened.
std::string ModelFolder::without_root(std::string text) const {
  const size_t root = path.find_last_of('/') + 1;  // its bytes, the slash among them
  if (root == 0) return text;
  const std::string begin = root > 1 ? path.substr(0, root) : path;
  for (size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at + 1)) {
    const size_t end = at + begin.size();
    const bool whole = begin.back() == '/' || end == text.size() || text[end] == '/' || !is_of_path(text[end]);
    if (whole && (at == 0 || !is_of_path(text[at - 1]))) text.erase(at, root);
  }
  return text;
}

}  // namespace weir::models
