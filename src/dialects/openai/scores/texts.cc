#include "dialects/openai/scores/texts.h"

#include <algorithm>

#include "dialects/openai/prompt.h"
#include "msg/text_codec.h"

namespace weir::openai::scores {
namespace {

using Ids = std::vector<uint32_t>;

class TextEncoder {
 public:
  TextEncoder(Request& request, const msg::TextSpec& spec, const std::atomic<bool>* cancelled, Texts& out)
      : request_(request), spec_(spec), cancelled_(cancelled), texts_(out) {
    texts_.most = std::min<size_t>(request_.truncate.value_or(spec_.max_length), spec_.max_length);
  }

  ApiError encode(ScoreApi api) {
    if (!request_.ids.empty()) return take_ids();
    if (classifies(api)) return encode_alone();
    encode(request_.first, texts_.first);
    encode(request_.second, texts_.second);
    return check_pairs();
  }

 private:
  // As they are: the client has put what belongs around them.
  ApiError take_ids() {
    for (size_t i = 0; i < request_.ids.size(); ++i) {
      Ids ids = std::move(request_.ids[i]);
      if (!request_.cut && ids.size() > texts_.most) return too_long("input", i, ids.size());
      if (ids.size() > texts_.most) ids.resize(texts_.most);
      if (ids.empty()) return refuse("input", "input: a row without tokens");
      if (ApiError bad = check_ids(spec_, ids, "input"); !bad.ok()) return bad;
      texts_.first.push_back(std::move(ids));
    }
    return {};
  }

  ApiError encode_alone() {
    for (size_t i = 0; i < request_.first.size(); ++i) {
      Ids ids = spec_.codec->encode(request_.first[i], msg::AddSpecial::kYes, cancelled_);
      if (!request_.cut && ids.size() > texts_.most) return too_long("input", i, ids.size());
      if (request_.cut) cut_between(ids);
      if (ids.empty()) return refuse("input", "input: a text without tokens");
      texts_.first.push_back(std::move(ids));
    }
    return {};
  }

  // Keeps what the tokenizer puts around a text.
  void cut_between(Ids& ids) const {
    if (ids.size() <= texts_.most) return;
    const Ids marks = spec_.codec->encode("", msg::AddSpecial::kYes);
    const auto front = size_t(std::mismatch(marks.begin(), marks.end(), ids.begin(), ids.end()).first - marks.begin());
    const size_t behind = std::min(marks.size() - front, texts_.most);
    std::copy(ids.end() - ptrdiff_t(behind), ids.end(), ids.begin() + ptrdiff_t(texts_.most - behind));
    ids.resize(texts_.most);
  }

  void encode(const std::vector<std::string>& texts, std::vector<Ids>& out) const {
    for (const std::string& text : texts) {
      if (cancelled_ && cancelled_->load(std::memory_order_relaxed)) break;
      out.push_back(spec_.codec->encode(text, msg::AddSpecial::kNo, cancelled_));
    }
    out.resize(texts.size());
  }

  // No more of a text is kept than can be in a row: which of two is cut, and how far, is the same then.
  ApiError check_pairs() {
    if (request_.document_tokens)
      for (Ids& ids : texts_.second) ids.resize(std::min<size_t>(ids.size(), *request_.document_tokens));
    for (size_t i = 0; i < texts_.second.size(); ++i) {
      const Ids& first = texts_.first[texts_.first.size() == 1 ? 0 : i];
      const size_t size = spec_.codec->pair_size(first.size(), texts_.second[i].size());
      if (size == 0) return refuse("documents", "a pair of texts without tokens");
      if (!request_.cut && size > texts_.most) return too_long("text_2", i, size);
    }
    for (auto* texts : {&texts_.first, &texts_.second})
      for (Ids& ids : *texts)
        if (ids.size() > texts_.most) ids.resize(texts_.most), ids.shrink_to_fit();
    return {};
  }

  ApiError too_long(const char* param, size_t index, size_t size) const {
    return {base::failure(base::Code::kOutOfRange,
                          std::string(param) + ": " + std::to_string(size) + " tokens of row " + std::to_string(index) +
                              " do not fit the model's context of " + std::to_string(spec_.max_length) +
                              "; truncate_prompt_tokens: -1 cuts them"),
            param,
            {}};
  }

  Request& request_;
  const msg::TextSpec& spec_;
  const std::atomic<bool>* const cancelled_;
  Texts& texts_;
};

}  // namespace

size_t Texts::bytes() const {
  size_t out = (first.size() + second.size()) * sizeof(Ids);
  for (const auto* texts : {&first, &second})
    for (const Ids& ids : *texts) out += ids.capacity() * sizeof(uint32_t);
  return out;
}

ApiError encode_texts(Request& request, ScoreApi api, const msg::TextSpec& spec, const std::atomic<bool>* cancelled,
                      Texts& out) {
  return TextEncoder(request, spec, cancelled, out).encode(api);
}

}  // namespace weir::openai::scores
