#include "engines/llm/cuda/coded_rows.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <utility>

#include "engines/llm/load/encode.h"

namespace weir::llm::cuda {
namespace {

constexpr size_t kOfThread = size_t(1) << 20;  // bytes: what is worth a thread

Format format_of(Coding coding) {
  switch (coding) {
    case Coding::kInt8: return Format::kInt8;
    case Coding::kInt4: return Format::kInt4;
    case Coding::kFp8: return Format::kFp8;
    case Coding::kWhole: break;
  }
  return Format::kBf16;
}
Coding coding_of(Format format) { return format == Format::kInt8 ? Coding::kInt8 : Coding::kInt4; }

bool are_alike(std::span<const Weight* const> weights) {
  const Weight& one = *weights.front();
  return std::all_of(weights.begin(), weights.end(), [&](const Weight* w) {
    return w->coding() == one.coding() && w->group() == one.group() && w->offsets() == one.offsets();
  });
}

// A group that is all of a row stays that where the row is cut. Ranks have equal shares: where one of them would begin
// inside a group, no share is whole groups, so that all keep the matrix in the same way.
CodePlan planned(Format format, bool offsets, CodePlan plan) {
  DeviceMatrix& m = plan.how;
  const bool part = plan.inputs < plan.all;
  const bool cut = part && plan.group < plan.all && (plan.first % plan.group != 0 || plan.inputs % plan.group != 0);
  const uint32_t group = std::min(plan.group, plan.inputs);
  if (format == Format::kBf16 || cut || plan.inputs % kCodedTogether || group % kCodedTogether) return plan;
  m.format = format, m.group = group, m.offsets = offsets ? 1 : 0;
  m.pitch = uint32_t(row_bytes(format, plan.inputs, group, offsets));
  return plan;
}

bool is_stored_so(const Weight& w, const CodePlan& plan) {
  return format_of(w.coding()) == plan.how.format && w.group() == plan.group && (plan.how.offsets || !w.offsets());
}

// The format and the group that are chosen here.
std::pair<Format, uint32_t> chosen(Keep keep, uint32_t inputs) {
  const Format format = keep == Keep::kInt8 ? Format::kInt8 : keep == Keep::kInt4 ? Format::kInt4 : Format::kBf16;
  return {format, std::min(format == Format::kInt8 ? kInt8Group : kInt4Group, inputs)};
}

}  // namespace

CodePlan plan_codes(std::span<const Weight* const> weights, Keep keep, uint32_t first, uint32_t inputs) {
  const Weight& one = *weights.front();
  auto [format, group] = chosen(keep, one.inputs());
  if (keep == Keep::kAsStored && are_alike(weights)) format = format_of(one.coding()), group = one.group();
  bool offsets = false;
  for (const Weight* w : weights) {
    const bool stored = format_of(w->coding()) == format && w->group() == group;
    if (!stored || (keep != Keep::kAsStored && w->offsets())) continue;
    offsets = offsets || (format == Format::kInt4 ? !w->middle_zeros() : w->offsets());
  }
  return planned(format, offsets, {{}, one.inputs(), first, inputs, group});
}

CodePlan plan_codes(Keep keep, uint32_t inputs) {
  const auto [format, group] = chosen(keep, inputs);
  return planned(format, false, {{}, inputs, 0, inputs, group});
}

RowCoder::RowCoder(const CodePlan& plan)
    : plan_(plan),
      codes_(plan.all),
      zeros_(groups_of(plan.all, kCodedTogether)),
      numbers_(plan.all),
      scales_(zeros_.size()),
      offsets_(zeros_.size()) {}

void RowCoder::write(const Weight& weight, uint32_t output, std::byte* to) {
  if (!is_stored_so(weight, plan_)) {
    weight.floats(output, numbers_.data());
    return write(numbers_.data(), to);
  }
  weight.codes(output, {codes_.data(), scales_.data(), zeros_.data(), offsets_.data()});
  put(to);
}

void RowCoder::write(const float* row, std::byte* to) {
  std::fill(offsets_.begin(), offsets_.end(), 0.f);
  encode(coding_of(plan_.how.format), plan_.group, plan_.all, row, codes_.data(), scales_.data(), zeros_.data());
  put(to);
}

void RowCoder::put(std::byte* to) {
  const uint32_t group = plan_.group < plan_.all ? plan_.first / plan_.group : 0;
  write_row(plan_.how, plan_.inputs,
            {codes_.data() + plan_.first, scales_.data() + group, zeros_.data() + group, offsets_.data() + group}, to);
}

void write_rows(size_t pitch, size_t from, std::span<std::byte> to, uint32_t threads,
                const std::function<WriteRow()>& make) {
  const size_t end = from + to.size(), first = from / pitch, last = (end + pitch - 1) / pitch;
  auto write = [&](size_t begin, size_t stop) {
    const WriteRow row_to = make();
    std::vector<std::byte> whole(pitch);
    for (size_t row = begin; row < stop; ++row) {
      const size_t at = row * pitch;
      if (at >= from && at + pitch <= end) {
        row_to(row, to.data() + (at - from));
        continue;
      }
      row_to(row, whole.data());
      const size_t skip = at < from ? from - at : 0, n = std::min(at + pitch, end) - (at + skip);
      std::memcpy(to.data() + (at + skip - from), whole.data() + skip, n);
    }
  };
  const size_t rows = last - first;
  const size_t count = std::clamp<size_t>(to.size() / kOfThread, 1, std::max(threads, 1u));
  std::vector<std::future<void>> others;  // each waits for its thread, also where this one throws
  for (size_t t = 1; t < count; ++t)
    others.push_back(std::async(std::launch::async, write, first + rows * t / count, first + rows * (t + 1) / count));
  write(first, first + rows / count);
  for (auto& other : others) other.get();
}

}  // namespace weir::llm::cuda
