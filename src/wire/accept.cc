#include "wire/accept.h"

#include "wire/text.h"

namespace weir::wire {

bool accepts(std::string_view accept, std::string_view type) {
  bool named = false;
  for_each_element(accept, [&](std::string_view element) {
    size_t end = element.find(';');
    if (!same_text(trim(element.substr(0, end)), type)) return;
    std::string_view rest = end == element.npos ? std::string_view() : trim(element.substr(end + 1));
    named = !(rest.starts_with("q=0") && rest.find_first_not_of("0.", 2) == rest.npos);
  });
  return named;
}

}  // namespace weir::wire
