#include "text/token_filter.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace weir::text {
namespace {

class FilteredTokens final : public msg::TokenConstraint {
 public:
  FilteredTokens(std::shared_ptr<const TokenFilter> filter, std::unique_ptr<msg::TokenConstraint> form)
      : filter_(std::move(filter)), form_(std::move(form)) {
    for (const auto& word : filter_->banned) longest_ = std::max(longest_, word.size());
  }

  void prepare() override { (void)mask(); }
  std::span<const uint32_t> mask() override {
    std::lock_guard lock(mutex_);
    return find_mask();
  }
  bool accept(uint32_t id) override {
    std::lock_guard lock(mutex_);
    if (!msg::allows(find_mask(), id)) return false;
    ready_ = false;
    recent_.push_back(id);
    if (recent_.size() >= std::max<size_t>(longest_, 1)) recent_.erase(recent_.begin());
    return !form_ || form_->accept(id);
  }
  bool complete() const override { return form_ && form_->complete(); }

 private:
  std::span<const uint32_t> find_mask() {
    if (std::exchange(ready_, true)) return words_;
    words_ = filter_->allowed;
    if (form_) narrow(form_->mask());
    for (const auto& word : filter_->banned)
      if (const uint32_t last = word.back(); last / 32 < words_.size() && follows(word))
        words_[last / 32] &= ~(1u << last % 32);
    return words_;
  }
  // Empty where the form's is: it could not be found.
  void narrow(std::span<const uint32_t> form) {
    words_.resize(std::min(words_.size(), form.size()));
    for (size_t i = 0; i < words_.size(); ++i) words_[i] &= form[i];
  }
  // All but the last of the word's tokens have just come.
  bool follows(const std::vector<uint32_t>& word) const {
    const size_t before = word.size() - 1;
    return before <= recent_.size() && std::equal(word.begin(), word.end() - 1, recent_.end() - ptrdiff_t(before));
  }

  const std::shared_ptr<const TokenFilter> filter_;
  const std::unique_ptr<msg::TokenConstraint> form_;
  size_t longest_ = 0;
  std::mutex mutex_;
  std::vector<uint32_t> recent_;  // this and the rest: under mutex_. One less than the longest word
  std::vector<uint32_t> words_;
  bool ready_ = false;
};

}  // namespace

std::vector<uint32_t> token_mask(std::span<const uint32_t> ids, uint32_t vocabulary) {
  std::vector<uint32_t> mask((size_t(vocabulary) + 31) / 32, ids.empty() ? UINT32_MAX : 0);
  for (uint32_t id : ids) mask[id / 32] |= 1u << id % 32;
  return mask;
}

std::unique_ptr<msg::TokenConstraint> start_filter(std::shared_ptr<const TokenFilter> filter,
                                                   std::unique_ptr<msg::TokenConstraint> form) {
  return std::make_unique<FilteredTokens>(std::move(filter), std::move(form));
}

}  // namespace weir::text
