#include "normalizer.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>

#include <algorithm>

#include "utf8.h"

namespace tokenizers {

namespace {

const icu::Normalizer2* instance(UnicodeForm form, UErrorCode& error) {
  switch (form) {
    case UnicodeForm::kNfc: return icu::Normalizer2::getNFCInstance(error);
    case UnicodeForm::kNfd: return icu::Normalizer2::getNFDInstance(error);
    case UnicodeForm::kNfkc: return icu::Normalizer2::getNFKCInstance(error);
    case UnicodeForm::kNfkd: return icu::Normalizer2::getNFKDInstance(error);
  }
  return nullptr;
}

struct Bounds {
  size_t most;
  Pattern::FailureBudget& failures;
};

// False: the text is in that form already, `out` is untouched.
bool apply_step(UnicodeForm form, std::string_view text, std::string& out, Bounds) {
  if (is_ascii(text)) return false;
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* normalizer = instance(form, error);
  icu::StringPiece piece(text.data(), int32_t(text.size()));
  if (!normalizer || U_FAILURE(error) || normalizer->isNormalizedUTF8(piece, error) || U_FAILURE(error)) return false;
  std::string changed;
  icu::StringByteSink<std::string> sink(&changed, int32_t(text.size()));
  normalizer->normalizeUTF8(0, piece, sink, nullptr, error);
  if (U_FAILURE(error)) return false;
  out = std::move(changed);
  return true;
}

bool apply_step(const Prepend& step, std::string_view text, std::string& out, Bounds bounds) {
  if (text.empty() || text.size() + step.text.size() > bounds.most) return false;
  std::string changed = step.text;
  changed += text;
  out = std::move(changed);
  return true;
}

bool apply_step(const Replace& step, std::string_view text, std::string& out, Bounds bounds) {
  out = replace_all(text, step, bounds.most, bounds.failures);
  return true;
}

bool apply_step(const BertNormalizer& step, std::string_view text, std::string& out, Bounds) {
  return bert_normalize(step, text, out);
}

// Marks of all kinds (category M) go; what is composed with one stays.
bool apply_step(StripAccents, std::string_view text, std::string& out, Bounds) {
  if (is_ascii(text)) return false;
  std::string plain;
  plain.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t from = at;
    const char32_t c = utf8_next(text, at);
    if ((U_GET_GC_MASK(UChar32(c)) & U_GC_M_MASK) == 0) plain.append(text, from, at - from);
  }
  out = std::move(plain);
  return true;
}

bool apply_step(Lowercase, std::string_view text, std::string& out, Bounds) { return lower_case(text, out); }
bool apply_step(const Charsmap& step, std::string_view text, std::string& out, Bounds bounds) {
  return step.apply(text, out, bounds.most);
}

bool apply_step(const Strip& step, std::string_view text, std::string& out, Bounds) {
  size_t from = 0, to = text.size();
  auto blank = [&](size_t at) { return u_isUWhiteSpace(UChar32(utf8_next(text, at))); };
  while (step.left && from < to && blank(from)) from += utf8_size(text[from]);
  while (step.right && to > from) {
    size_t last = to - 1;
    while ((uint8_t(text[last]) & 0xC0) == 0x80) --last;
    if (!blank(last)) break;
    to = last;
  }
  if (to - from == text.size()) return false;
  out = std::string(text.substr(from, to - from));
  return true;
}

}  // namespace

std::string replace_all(std::string_view text, const Replace& step, size_t most, Pattern::FailureBudget& failures) {
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  Pattern::Search search(step.pattern, failures);
  size_t done = 0;
  for (size_t from = 0; from <= text.size();) {
    auto match = search.next(text, from);
    if (!match || out.size() + (text.size() - done) + step.content.size() > most) break;
    out.append(text.substr(done, match->from - done)).append(step.content);
    done = from = match->to;
    if (match->from != match->to) continue;
    if (from == text.size()) break;
    from += utf8_size(text[from]);
  }
  out.append(text.substr(done));
  return out;
}

std::string_view Normalizer::apply(std::string_view text, std::string& storage,
                                   Pattern::FailureBudget& failures) const {
  std::string next;
  const Bounds bounds{max_normalized(text.size()), failures};
  for (const auto& step : steps_) {
    bool changed = std::visit([&](const auto& what) { return apply_step(what, text, next, bounds); }, step);
    if (!changed) continue;
    storage.swap(next);  // `text` may lie in what is now `next`, and is not read again
    text = storage;
  }
  return text;
}

}  // namespace tokenizers
